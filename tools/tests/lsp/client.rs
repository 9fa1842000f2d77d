//! A scripted editor: the server as a process, with real pipes.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};

/// Far longer than anything takes: a server that does not answer fails its test.
const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) struct Client {
    child: Child,
    stdin: Option<ChildStdin>,
    incoming: Receiver<Value>,
    next_id: i64,
    /// Answers that nobody has waited for.
    answers: BTreeMap<i64, Value>,
    /// Diagnostics by version, and other notifications.
    pub(crate) published: Vec<Value>,
    pub(crate) notifications: Vec<Value>,
}

impl Client {
    /// A server that has heard nothing.
    pub(crate) fn start() -> Client {
        let mut child = Command::new(env!("CARGO_BIN_EXE_relay-opt"))
            .arg("lsp")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let stdin = child.stdin.take();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let (sender, incoming) = channel();
        std::thread::spawn(move || {
            while let Some(message) = read(&mut stdout) {
                if sender.send(message).is_err() {
                    break;
                }
            }
        });
        let (answers, published, notifications) = (BTreeMap::new(), vec![], vec![]);
        Client { child, stdin, incoming, next_id: 0, answers, published, notifications }
    }

    /// A server that is ready, with columns in UTF-16.
    pub(crate) fn ready() -> Client {
        let mut client = Client::start();
        client.request("initialize", json!({ "capabilities": {} })).unwrap();
        client.notify("initialized", json!({}));
        client
    }

    pub(crate) fn process(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn send_bytes(&mut self, bytes: &[u8]) {
        let stdin = self.stdin.as_mut().unwrap();
        stdin.write_all(bytes).unwrap();
        stdin.flush().unwrap();
    }

    pub(crate) fn send(&mut self, message: &Value) {
        let text = message.to_string();
        self.send_bytes(format!("Content-Length: {}\r\n\r\n{text}", text.len()).as_bytes());
    }

    pub(crate) fn notify(&mut self, method: &str, params: Value) {
        self.send(&json!({ "jsonrpc": "2.0", "method": method, "params": params }));
    }

    /// Sends a request; its id.
    pub(crate) fn ask(&mut self, method: &str, params: Value) -> i64 {
        self.next_id += 1;
        let id = self.next_id;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        id
    }

    /// The answer to request `id`, or its code and message.
    pub(crate) fn answer(&mut self, id: i64) -> Result<Value, (i64, String)> {
        while !self.answers.contains_key(&id) {
            self.receive();
        }
        let mut answer = self.answers.remove(&id).unwrap();
        match answer.get("error") {
            Some(error) => {
                let message = error["message"].as_str().unwrap().to_string();
                Err((error["code"].as_i64().unwrap(), message))
            }
            None => Ok(answer["result"].take()),
        }
    }

    pub(crate) fn request(&mut self, method: &str, params: Value) -> Result<Value, (i64, String)> {
        let id = self.ask(method, params);
        self.answer(id)
    }

    /// The next message without an id that is known.
    pub(crate) fn receive(&mut self) -> Option<Value> {
        let message = self.incoming.recv_timeout(PATIENCE).expect("the server says nothing");
        if let Some(id) = message.get("id").and_then(Value::as_i64) {
            self.answers.insert(id, message);
            return None;
        }
        match message["method"].as_str() {
            Some("textDocument/publishDiagnostics") => {
                self.published.push(message["params"].clone());
            }
            _ => self.notifications.push(message.clone()),
        }
        Some(message)
    }

    pub(crate) fn open(&mut self, uri: &str, version: i64, text: &str) {
        let document =
            json!({ "uri": uri, "languageId": "relay", "version": version, "text": text });
        self.notify("textDocument/didOpen", json!({ "textDocument": document }));
    }

    pub(crate) fn close(&mut self, uri: &str) {
        self.notify("textDocument/didClose", json!({ "textDocument": { "uri": uri } }));
    }

    pub(crate) fn change(&mut self, uri: &str, version: i64, changes: Value) {
        let document = json!({ "uri": uri, "version": version });
        let params = json!({ "textDocument": document, "contentChanges": changes });
        self.notify("textDocument/didChange", params);
    }

    /// The diagnostics of `uri` in `version`. Those of versions after it must not come first.
    pub(crate) fn diagnostics(&mut self, uri: &str, version: i64) -> Value {
        loop {
            for published in std::mem::take(&mut self.published) {
                if published["uri"] == uri && published["version"] == version {
                    return published["diagnostics"].clone();
                }
            }
            self.receive();
        }
    }

    /// The result of a request about `uri` with further parameters.
    pub(crate) fn about(
        &mut self,
        method: &str,
        uri: &str,
        params: Value,
    ) -> Result<Value, (i64, String)> {
        let mut params = params;
        params["textDocument"] = json!({ "uri": uri });
        self.request(method, params)
    }

    /// The same at the place of byte `offset` of `text`.
    pub(crate) fn at(
        &mut self,
        method: &str,
        uri: &str,
        text: &str,
        offset: usize,
    ) -> Result<Value, (i64, String)> {
        self.about(method, uri, json!({ "position": position(text, offset) }))
    }

    /// Ends the session; the exit status.
    pub(crate) fn end(mut self) -> Option<i32> {
        self.request("shutdown", Value::Null).unwrap();
        self.notify("exit", Value::Null);
        self.child.wait().unwrap().code()
    }

    /// Ends the stream; the exit status.
    pub(crate) fn hang_up(mut self) -> Option<i32> {
        self.stdin = None;
        self.child.wait().unwrap().code()
    }
}

fn read(stdout: &mut impl BufRead) -> Option<Value> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        if stdout.read_line(&mut line).ok()? == 0 {
            return None;
        }
        match line.trim() {
            "" => break,
            header => {
                length = header.strip_prefix("Content-Length: ")?.parse().ok()?;
            }
        }
    }
    let mut body = vec![0; length];
    stdout.read_exact(&mut body).ok()?;
    serde_json::from_slice(&body).ok()
}

/// The line and the column, in UTF-16, of byte `offset` of `text`.
pub(crate) fn position(text: &str, offset: usize) -> Value {
    let before = &text[..offset];
    let line = before.matches('\n').count();
    let column = before.rsplit('\n').next().unwrap_or("").encode_utf16().count();
    json!({ "line": line, "character": column })
}

/// The part of `text` that a range of the protocol covers.
pub(crate) fn covered<'t>(text: &'t str, range: &Value) -> &'t str {
    let place = |position: &Value| {
        let line = position["line"].as_u64().unwrap() as usize;
        let start: usize = text.split_inclusive('\n').take(line).map(str::len).sum();
        let mut units = position["character"].as_u64().unwrap() as usize;
        let mut offset = start;
        for character in text[start..].chars() {
            if units == 0 {
                break;
            }
            units -= character.len_utf16();
            offset += character.len_utf8();
        }
        offset
    };
    &text[place(&range["start"])..place(&range["end"])]
}
