//! The language server.
//!
//! Three threads share the work. One reads messages and edits documents; the *worker* answers
//! requests and looks for diagnostics; the *writer* writes what they send.
//!
//! **Invariants**
//! - An edit ends what the worker computes of the document: no answer is computed for longer than
//!   it is wanted.
//! - What is sent about a document is true of the text that it had when the request came, or, for
//!   diagnostics, that it has: the worker sends under the lock that edits take, and only where no
//!   edit came meanwhile.
//! - The worker holds no snapshot when it takes that lock, and an edit, which waits for snapshots,
//!   holds nothing that the worker needs to be done. So neither waits for the other for ever.
//! - Nothing that comes in ends the server but `exit` and the end of the stream.
//!
//! A session in memory, which an editor ends at once:
//!
//! ```
//! let registry = ir_core::Registry::from([relay_operators::dialect()]);
//! let message = |json: &str| format!("Content-Length: {}\r\n\r\n{json}", json.len());
//! let session = [
//!     message(r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"capabilities":{}}}"#),
//!     message(r#"{"jsonrpc":"2.0","id":2,"method":"shutdown"}"#),
//!     message(r#"{"jsonrpc":"2.0","method":"exit"}"#),
//! ];
//! let mut answers = Vec::new();
//! let end = lsp::serve(&registry, &[], &mut session.concat().as_bytes(), &mut answers)?;
//! assert_eq!(end, lsp::End::Orderly);
//! assert!(String::from_utf8_lossy(&answers).contains("hoverProvider"));
//! # Ok::<(), std::io::Error>(())
//! ```

mod completion;
mod context;
mod diagnostics;
mod documents;
mod edits;
mod fixes;
mod folding;
mod hover;
mod lines;
mod links;
mod passes;
mod protocol;
mod signature;
mod symbols;
mod tokens;
mod transport;
mod worker;

use std::io::{self, BufRead, BufReader, Read, Write};
use std::sync::mpsc;
use std::thread;

use ir_core::Registry;
use ir_core::diagnostics::codes::Code;
use serde_json::{Value, json};

use documents::{Documents, Job, Shared};
use protocol::{Failure, INVALID_REQUEST, NOT_INITIALIZED, PARSE_ERROR, Params};
use transport::Messages;
use worker::Worker;

/// How a session ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// The editor said `shutdown`, then `exit`.
    Orderly,
    /// The stream ended, or `exit` came before `shutdown`.
    Abrupt,
}

/// Serves an editor, which `input` comes from and `output` goes to, until it says `exit` or its
/// stream ends. Programs may hold what `registry` has; `codes` are those that `relay.explain`
/// explains.
///
/// # Errors
/// Those of reading. Where nobody reads what is written, the session goes on to the end of `input`.
pub fn serve(
    registry: &Registry,
    codes: &[Code],
    input: &mut dyn Read,
    output: &mut (dyn Write + Send),
) -> io::Result<End> {
    let (outgoing, to_write) = mpsc::channel::<Value>();
    let (jobs, to_do) = mpsc::channel::<Job>();
    let shared = Shared::new(registry.clone(), codes, outgoing.clone());
    let mut input = BufReader::new(input);
    thread::scope(|scope| {
        scope.spawn(move || write(&to_write, output));
        let worker = Worker::new(&shared, to_do, outgoing.clone());
        scope.spawn(move || worker.run());
        let mut reader = Reader { shared: &shared, jobs, outgoing, state: State::New };
        let end = reader.run(&mut input);
        // The other threads end whatever ended this one.
        shared.close();
        end
    })
}

/// Writes messages until nobody can send any more, or the other side is gone.
fn write(messages: &mpsc::Receiver<Value>, out: &mut (dyn Write + Send)) {
    for message in messages {
        let written = out.write_all(&transport::frame(&message)).and_then(|()| out.flush());
        if written.is_err() {
            break;
        }
    }
}

/// How far a session is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    New,
    Ready,
    ShutDown,
}

/// Takes messages in.
struct Reader<'a> {
    shared: &'a Shared<'a>,
    jobs: mpsc::Sender<Job>,
    outgoing: mpsc::Sender<Value>,
    state: State,
}

impl Reader<'_> {
    /// Takes messages in up to the last one.
    fn run(&mut self, input: &mut dyn BufRead) -> io::Result<End> {
        let mut messages = Messages::new(input);
        while let Some(message) = messages.next()? {
            if let Some(end) = self.receive(message) {
                return Ok(end);
            }
        }
        Ok(End::Abrupt)
    }

    /// Takes a message in; the end where it is the last one.
    fn receive(&mut self, message: transport::Received) -> Option<End> {
        let message = match message {
            Ok(message) => message,
            Err(error) => {
                self.send(protocol::failure(&Value::Null, &Failure::new(PARSE_ERROR, error)));
                return None;
            }
        };
        let id = message.get("id").filter(|id| id.is_i64() || id.is_u64() || id.is_string());
        let Some(method) = message.get("method").and_then(Value::as_str) else {
            // Answers to requests, of which this server sends none, need no answer.
            if message.get("result").is_none() && message.get("error").is_none() {
                let wrong = Failure::new(INVALID_REQUEST, "a message needs a `method`");
                self.send(protocol::failure(id.unwrap_or(&Value::Null), &wrong));
            }
            return None;
        };
        let params = Params(message.get("params").unwrap_or(&Value::Null));
        if method == "exit" {
            return Some(match self.state {
                State::ShutDown => End::Orderly,
                State::New | State::Ready => End::Abrupt,
            });
        }
        match (id, message.get("id")) {
            (Some(id), _) => {
                if let Some(answer) = self.request(id, method, params).transpose() {
                    self.send(protocol::answer(id, answer));
                }
            }
            (None, Some(_)) => {
                let wrong = Failure::new(INVALID_REQUEST, "an `id` is a number or a string");
                self.send(protocol::failure(&Value::Null, &wrong));
            }
            (None, None) => {
                if let Err(failure) = self.notification(method, params) {
                    let message = format!("{method}: {}", failure.message);
                    let params = json!({ "type": 1, "message": message });
                    self.send(protocol::notification("window/logMessage", params));
                }
            }
        }
        None
    }

    /// Answers a request, or leaves that to the worker.
    fn request(
        &mut self,
        id: &Value,
        method: &str,
        params: Params<'_>,
    ) -> Result<Option<Value>, Failure> {
        match (self.state, method) {
            (State::New, "initialize") => {
                let encoding = self.shared.initialize(params);
                self.state = State::Ready;
                Ok(Some(worker::capabilities(encoding)))
            }
            (State::New, _) => {
                let message = "the server is not initialized; send `initialize` first";
                Err(Failure::new(NOT_INITIALIZED, message))
            }
            (State::Ready, "initialize") => {
                Err(Failure::new(INVALID_REQUEST, "the server is initialized already"))
            }
            (State::Ready, "shutdown") => {
                self.state = State::ShutDown;
                Ok(Some(Value::Null))
            }
            (State::Ready, _) => {
                let job = self.shared.request(id, method, params)?;
                // The worker lives as long as jobs can be sent.
                let _ = self.jobs.send(job);
                Ok(None)
            }
            (State::ShutDown, _) => {
                Err(Failure::new(INVALID_REQUEST, "the server is shut down; send `exit`"))
            }
        }
    }

    /// Takes a notification in. What comes before `initialize` or after `shutdown` is dropped.
    fn notification(&mut self, method: &str, params: Params<'_>) -> Result<(), Failure> {
        if self.state != State::Ready {
            return Ok(());
        }
        let changed = match method {
            "textDocument/didOpen" => Some(self.shared.open(params)?),
            "textDocument/didChange" => Some(self.shared.change(params)?),
            "textDocument/didClose" => {
                self.shared.close_document(params)?;
                None
            }
            "$/cancelRequest" => {
                self.shared.cancel(params);
                None
            }
            _ => None,
        };
        if let Some(document) = changed {
            // The worker lives as long as jobs can be sent.
            let _ = self.jobs.send(Job::Changed(document));
        }
        Ok(())
    }

    fn send(&self, message: Value) {
        // The writer ends only where nobody reads what it writes.
        let _ = self.outgoing.send(message);
    }
}

/// Locks what a panic cannot leave half-done.
fn lock(documents: &std::sync::Mutex<Documents>) -> std::sync::MutexGuard<'_, Documents> {
    documents.lock().unwrap_or_else(|error| error.into_inner())
}
