//! The open documents, and what has to be done about them.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};

use analysis::{Database, Snapshot};
use ir_core::Registry;
use ir_core::diagnostics::codes::Code;
use ir_core::pipeline::catch_panic;
use passes::incremental::Relay;
use serde::Deserialize;
use serde_json::{Value, json};

use super::lines::{Encoding, Lines, PositionRange};
use super::lock;
use super::protocol::{self, Failure, INTERNAL_ERROR, INVALID_PARAMS, Params};

/// Longer texts are refused: places are 31-bit offsets.
const LONGEST_TEXT: usize = i32::MAX as usize;

/// Something to do.
pub(super) enum Job {
    /// A document was opened or edited.
    Changed(String),
    /// A request, about a document and the state of it, where it is about one.
    Request { id: Value, method: String, params: Value, document: Option<(String, u64)> },
}

/// What the threads share.
pub(super) struct Shared<'a> {
    language: Arc<Relay>,
    pub(super) registry: Registry,
    pub(super) codes: &'a [Code],
    pub(super) documents: Mutex<Documents>,
}

/// What is known of the session.
pub(super) struct Documents {
    encoding: Encoding,
    open: BTreeMap<String, Document>,
    /// Numbers states of documents.
    revisions: u64,
    /// Requests that wait, by their id as JSON, and whether they are no longer wanted.
    waiting: BTreeMap<String, bool>,
    /// `None` at the end of the session: the writer ends when nobody can send any more.
    outgoing: Option<Sender<Value>>,
}

/// An open document.
struct Document {
    database: Database,
    lines: Lines,
    /// The number that the editor gave to this state.
    version: Value,
    revision: u64,
}

/// A document as it was at one time.
pub(super) struct View {
    pub(super) uri: String,
    pub(super) snapshot: Snapshot,
    pub(super) lines: Lines,
    pub(super) revision: u64,
    pub(super) version: Value,
}

impl View {
    /// The bytes `range` as places.
    pub(super) fn range(&self, range: Range<usize>) -> PositionRange {
        self.lines.range(self.snapshot.text(), range)
    }

    /// The bytes at `range`.
    pub(super) fn bytes(&self, range: PositionRange) -> Range<usize> {
        self.lines.bytes(self.snapshot.text(), range)
    }
}

/// A change of a document: of all of it where there is no range.
#[derive(Deserialize)]
struct Edit {
    range: Option<PositionRange>,
    text: String,
}

impl<'a> Shared<'a> {
    pub(super) fn new(
        registry: Registry,
        codes: &'a [Code],
        outgoing: Sender<Value>,
    ) -> Shared<'a> {
        let documents = Documents {
            encoding: Encoding::Utf16,
            open: BTreeMap::new(),
            revisions: 0,
            waiting: BTreeMap::new(),
            outgoing: Some(outgoing),
        };
        let language = Arc::new(Relay::new(registry.clone()));
        Shared { language, registry, codes, documents: Mutex::new(documents) }
    }

    /// Takes what the editor can do; the encoding of columns that follows.
    pub(super) fn initialize(&self, params: Params<'_>) -> Encoding {
        let offered: Result<Vec<String>, _> = params.get("/capabilities/general/positionEncodings");
        let utf8 = offered.is_ok_and(|offered| offered.iter().any(|encoding| encoding == "utf-8"));
        let encoding = if utf8 { Encoding::Utf8 } else { Encoding::Utf16 };
        lock(&self.documents).encoding = encoding;
        encoding
    }

    /// Opens a document; its name.
    pub(super) fn open(&self, params: Params<'_>) -> Result<String, Failure> {
        let uri: String = params.get("/textDocument/uri")?;
        let text: String = params.get("/textDocument/text")?;
        check_length(text.len())?;
        let mut documents = lock(&self.documents);
        let lines = Lines::new(&text, documents.encoding);
        let mut database = Database::new(uri.as_str(), self.language.clone());
        guard(|| database.set_text(&text))?;
        let version = params.get("/textDocument/version").unwrap_or(Value::Null);
        let revision = documents.next_revision();
        documents.open.insert(uri.clone(), Document { database, lines, version, revision });
        Ok(uri)
    }

    /// Edits a document; its name.
    pub(super) fn change(&self, params: Params<'_>) -> Result<String, Failure> {
        let uri: String = params.get("/textDocument/uri")?;
        let edits: Vec<Edit> = params.get("/contentChanges")?;
        let mut documents = lock(&self.documents);
        let revision = documents.next_revision();
        let document = documents.open.get_mut(&uri).ok_or_else(|| unknown(&uri))?;
        document.version = params.get("/textDocument/version").unwrap_or(Value::Null);
        document.revision = revision;
        for Edit { range, text } in edits {
            document.edit(range, &text)?;
        }
        Ok(uri)
    }

    /// Closes a document, and takes its diagnostics back.
    pub(super) fn close_document(&self, params: Params<'_>) -> Result<(), Failure> {
        let uri: String = params.get("/textDocument/uri")?;
        let mut documents = lock(&self.documents);
        let document = documents.open.remove(&uri).ok_or_else(|| unknown(&uri))?;
        let none = json!({ "uri": uri, "diagnostics": [] });
        documents.send(protocol::notification("textDocument/publishDiagnostics", none));
        drop(documents);
        drop(document);
        Ok(())
    }

    /// Ends the session: what is being computed is no longer wanted.
    pub(super) fn close(&self) {
        let mut documents = lock(&self.documents);
        for document in documents.open.values_mut() {
            document.database.set_text("");
        }
        documents.open.clear();
        documents.outgoing = None;
    }

    /// A request as a job of the worker, for the text as it is now.
    pub(super) fn request(
        &self,
        id: &Value,
        method: &str,
        params: Params<'_>,
    ) -> Result<Job, Failure> {
        let mut documents = lock(&self.documents);
        let place = match method {
            "workspace/executeCommand" => "/arguments/0/uri",
            "codeLens/resolve" => "/data/uri",
            _ => "/textDocument/uri",
        };
        let uri: Option<String> = params.get(place).ok();
        let document = match uri {
            None => None,
            Some(uri) => {
                let document = documents.open.get(&uri).ok_or_else(|| unknown(&uri))?;
                let revision = document.revision;
                Some((uri, revision))
            }
        };
        documents.waiting.insert(id.to_string(), false);
        let (id, method, params) = (id.clone(), method.to_string(), params.0.clone());
        Ok(Job::Request { id, method, params, document })
    }

    /// Notes that a request is no longer wanted.
    pub(super) fn cancel(&self, params: Params<'_>) {
        let Ok(id) = params.get::<Value>("/id") else { return };
        if let Some(cancelled) = lock(&self.documents).waiting.get_mut(&id.to_string()) {
            *cancelled = true;
        }
    }

    /// Notes that request `id` waits no longer; whether it is still wanted.
    pub(super) fn start(&self, id: &Value) -> bool {
        lock(&self.documents).waiting.remove(&id.to_string()) != Some(true)
    }

    /// The open documents, by name.
    pub(super) fn open_documents(&self) -> Vec<String> {
        let mut names: Vec<String> = lock(&self.documents).open.keys().cloned().collect();
        names.sort_unstable();
        names
    }

    /// The document `uri` as it is now, where it is open.
    pub(super) fn view(&self, uri: &str) -> Option<View> {
        let documents = lock(&self.documents);
        let document = documents.open.get(uri)?;
        Some(View {
            uri: uri.to_string(),
            snapshot: document.database.snapshot(),
            lines: document.lines.clone(),
            revision: document.revision,
            version: document.version.clone(),
        })
    }

    /// Sends `message` where document `uri` is still in state `revision`; whether it is. The caller
    /// must hold no snapshot.
    pub(super) fn send_if(
        &self,
        uri: &str,
        revision: u64,
        message: impl FnOnce() -> Value,
    ) -> bool {
        let documents = lock(&self.documents);
        let current = documents.open.get(uri).is_some_and(|found| found.revision == revision);
        if current {
            documents.send(message());
        }
        current
    }
}

impl Documents {
    fn send(&self, message: Value) {
        if let Some(outgoing) = &self.outgoing {
            // The writer ends only where nobody reads what it writes.
            let _ = outgoing.send(message);
        }
    }

    fn next_revision(&mut self) -> u64 {
        self.revisions += 1;
        self.revisions
    }
}

impl Document {
    /// Puts `new` in the place of `range`, or of everything.
    fn edit(&mut self, range: Option<PositionRange>, new: &str) -> Result<(), Failure> {
        let text = self.database.text();
        match range {
            Some(range) => {
                let bytes = self.lines.bytes(text, range);
                check_length(text.len() - bytes.len() + new.len())?;
                guard(|| self.database.edit(bytes.clone(), new))?;
                self.lines.edit(self.database.text(), bytes, new.len());
            }
            None => {
                check_length(new.len())?;
                guard(|| self.database.set_text(new))?;
                self.lines = Lines::new(new, self.lines.encoding());
            }
        }
        Ok(())
    }
}

fn check_length(length: usize) -> Result<(), Failure> {
    match length <= LONGEST_TEXT {
        true => Ok(()),
        false => Err(Failure::new(INVALID_PARAMS, "a text has less than 2 GiB")),
    }
}

fn unknown(uri: &str) -> Failure {
    let message = format!("unknown document `{uri}`; send `textDocument/didOpen` first");
    Failure::new(INVALID_PARAMS, message)
}

/// Runs `work`; a panic in it is an error of the compiler, not the end of the session.
pub(super) fn guard<T>(work: impl FnOnce() -> T) -> Result<T, Failure> {
    catch_panic(work)
        .map_err(|message| Failure::new(INTERNAL_ERROR, format!("relay-opt crashed: {message}")))
}
