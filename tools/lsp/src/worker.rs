//! The thread that answers requests and looks for diagnostics.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::diagnostics;
use super::documents::{Job, Shared, View, guard};
use super::lines::{Encoding, Position, PositionRange};
use super::protocol::{self, CANCELLED, CONTENT_MODIFIED, Failure, METHOD_NOT_FOUND, Params};
use super::{completion, edits, fixes, folding, hover, links, passes, signature, symbols, tokens};

/// How long a document must stay as it is before its diagnostics are looked for.
const DELAY: Duration = Duration::from_millis(20);

/// What the server can do, the answer to `initialize`.
pub(super) fn capabilities(encoding: Encoding) -> Value {
    json!({
        "capabilities": {
            "positionEncoding": match encoding {
                Encoding::Utf8 => "utf-8",
                Encoding::Utf16 => "utf-16",
            },
            "textDocumentSync": { "openClose": true, "change": 2 },
            "hoverProvider": true,
            "completionProvider": {
                "triggerCharacters": ["%", "@", ".", "="],
                "resolveProvider": true,
            },
            "signatureHelpProvider": {
                "triggerCharacters": ["("],
                "retriggerCharacters": [",", "="],
            },
            "definitionProvider": true,
            "referencesProvider": true,
            "documentHighlightProvider": true,
            "renameProvider": { "prepareProvider": true },
            "documentSymbolProvider": true,
            "workspaceSymbolProvider": true,
            "foldingRangeProvider": true,
            "documentFormattingProvider": true,
            "inlayHintProvider": true,
            "codeActionProvider": { "codeActionKinds": ["quickfix"] },
            "codeLensProvider": { "resolveProvider": true },
            "executeCommandProvider": {
                "commands": ["relay.runPass", "relay.passes", "relay.explain"],
            },
            "semanticTokensProvider": {
                "legend": { "tokenTypes": tokens::TYPES, "tokenModifiers": tokens::MODIFIERS },
                "full": true,
                "range": true,
            },
        },
        "serverInfo": { "name": "relay-opt", "version": env!("CARGO_PKG_VERSION") },
    })
}

/// Does jobs, one after the other.
pub(super) struct Worker<'a> {
    shared: &'a Shared<'a>,
    jobs: Receiver<Job>,
    outgoing: Sender<Value>,
    /// Documents whose diagnostics are out of date, and when they are looked for.
    due: BTreeMap<String, Instant>,
}

impl<'a> Worker<'a> {
    pub(super) fn new(
        shared: &'a Shared<'a>,
        jobs: Receiver<Job>,
        outgoing: Sender<Value>,
    ) -> Worker<'a> {
        Worker { shared, jobs, outgoing, due: BTreeMap::new() }
    }

    /// Works until no more jobs can come.
    pub(super) fn run(mut self) {
        loop {
            let next = self.due.iter().min_by_key(|(_, due)| **due);
            let next = next.map(|(uri, due)| (uri.clone(), *due));
            let job = match &next {
                None => self.jobs.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some((_, due)) => {
                    self.jobs.recv_timeout(due.saturating_duration_since(Instant::now()))
                }
            };
            match job {
                Ok(Job::Changed(uri)) => {
                    self.due.insert(uri, Instant::now() + DELAY);
                }
                Ok(Job::Request { id, method, params, document }) => {
                    self.answer(&id, &method, Params(&params), document);
                }
                Err(RecvTimeoutError::Timeout) => {
                    if let Some((uri, _)) = next {
                        self.due.remove(&uri);
                        self.publish(&uri);
                    }
                }
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Sends the diagnostics of a document, unless it is edited meanwhile: then it is looked at
    /// again.
    fn publish(&self, uri: &str) {
        let Some(view) = self.shared.view(uri) else { return };
        let (revision, version) = (view.revision, view.version.clone());
        let found =
            guard(|| view.snapshot.attempt(|_| diagnostics::all(&view, &self.shared.registry)));
        drop(view);
        let message = match found {
            Ok(None) => return,
            Ok(Some(found)) => diagnostics::publication(uri, &version, found),
            Err(failure) => {
                let params = serde_json::json!({ "type": 1, "message": failure.message });
                protocol::notification("window/logMessage", params)
            }
        };
        self.shared.send_if(uri, revision, || message);
    }

    /// Answers a request.
    fn answer(
        &self,
        id: &Value,
        method: &str,
        params: Params<'_>,
        document: Option<(String, u64)>,
    ) {
        let send = |answer| {
            // The writer ends only where nobody reads what it writes.
            let _ = self.outgoing.send(protocol::answer(id, answer));
        };
        if !self.shared.start(id) {
            return send(Err(Failure::new(CANCELLED, "the request was cancelled")));
        }
        if method == "workspace/symbol" {
            return send(self.workspace_symbols(params));
        }
        let Some((uri, revision)) = document else {
            return send(guard(|| without_document(method, params, self.shared)).flatten());
        };
        let modified = || Err(Failure::new(CONTENT_MODIFIED, "the document was edited meanwhile"));
        let view = self.shared.view(&uri).filter(|view| view.revision == revision);
        let Some(view) = view else { return send(modified()) };
        let answered =
            guard(|| view.snapshot.attempt(|_| about_document(method, params, &view, self.shared)));
        drop(view);
        let answer = match answered {
            Ok(Some(answer)) => answer,
            Ok(None) => modified(),
            Err(failure) => Err(failure),
        };
        if !self.shared.send_if(&uri, revision, || protocol::answer(id, answer)) {
            send(modified());
        }
    }

    /// The items of all open documents whose names hold what is looked for.
    ///
    /// # Errors
    /// When a document is edited meanwhile.
    fn workspace_symbols(&self, params: Params<'_>) -> Result<Value, Failure> {
        let query: String = params.get("/query")?;
        let mut found = Vec::new();
        for uri in self.shared.open_documents() {
            let Some(view) = self.shared.view(&uri) else { continue };
            let symbols = guard(|| view.snapshot.attempt(|_| symbols::matching(&view, &query)))?;
            let modified = || Failure::new(CONTENT_MODIFIED, "a document was edited meanwhile");
            found.extend(symbols.ok_or_else(modified)?);
        }
        Ok(Value::Array(found))
    }
}

/// Answers a request that is about no document.
fn without_document(
    method: &str,
    params: Params<'_>,
    shared: &Shared<'_>,
) -> Result<Value, Failure> {
    match method {
        "completionItem/resolve" => completion::resolve(params, &shared.registry),
        "workspace/executeCommand" => passes::execute(params, shared),
        _ if method.starts_with("textDocument/") => {
            Err(params.get::<String>("/textDocument/uri").err().unwrap_or_else(|| unknown(method)))
        }
        _ => Err(unknown(method)),
    }
}

/// Answers a request about a document.
fn about_document(
    method: &str,
    params: Params<'_>,
    view: &View,
    shared: &Shared<'_>,
) -> Result<Value, Failure> {
    let registry = &shared.registry;
    let offset = || {
        let position: Position = params.get("/position")?;
        Ok::<_, Failure>(view.lines.offset(view.snapshot.text(), position))
    };
    let range = || Ok::<_, Failure>(view.bytes(params.get::<PositionRange>("/range")?));
    let everything = 0..view.snapshot.text().len();
    Ok(match method {
        "textDocument/hover" => hover::hover(view, offset()?, registry),
        "textDocument/completion" => completion::complete(view, offset()?, registry),
        "textDocument/definition" => links::definition(view, offset()?, registry),
        "textDocument/references" => {
            let declaration = params.get("/context/includeDeclaration").unwrap_or(true);
            links::references(view, offset()?, declaration, registry)
        }
        "textDocument/documentHighlight" => links::highlights(view, offset()?, registry),
        "textDocument/prepareRename" => links::prepare_rename(view, offset()?, registry)?,
        "textDocument/rename" => {
            links::rename(view, offset()?, &params.get::<String>("/newName")?, registry)?
        }
        "textDocument/documentSymbol" => symbols::symbols(view),
        "textDocument/inlayHint" => symbols::hints(view, range()?),
        "textDocument/codeLens" => passes::lenses(view),
        "codeLens/resolve" => passes::resolve_lens(view, params)?,
        "textDocument/codeAction" => fixes::actions(view, range()?, params, shared.codes),
        "textDocument/signatureHelp" => signature::help(view, offset()?, registry),
        "textDocument/foldingRange" => folding::ranges(view),
        "textDocument/formatting" => edits::format(view, registry)?,
        "textDocument/semanticTokens/full" => tokens::tokens(view, everything, registry),
        "textDocument/semanticTokens/range" => tokens::tokens(view, range()?, registry),
        "workspace/executeCommand" => passes::execute_on(view, params, shared)?,
        _ => return Err(unknown(method)),
    })
}

fn unknown(method: &str) -> Failure {
    Failure::new(METHOD_NOT_FOUND, format!("unknown method `{method}`"))
}
