//! CPU time of the language server from an edit to fresh diagnostics and types of the edited
//! function, in a module of 1,000 functions of 100 operations. Server and client are one process,
//! connected by pipes, so that the figures include the client's reading and writing of JSON.
//!
//! `cargo bench -p tools --bench lsp`

mod common;

use std::io::{BufRead, BufReader, PipeReader, PipeWriter, Read, Write};
use std::time::{Duration, Instant};

use common::{FUNCTIONS, OPERATIONS, source};
use cpu_time::ProcessTime;
use serde_json::{Value, json};
use tools::io::Io;

const URI: &str = "file:///module.relay";
const EDITS: usize = 100;

struct Client {
    to_server: PipeWriter,
    from_server: BufReader<PipeReader>,
}

impl Client {
    fn send(&mut self, message: Value) -> std::io::Result<()> {
        let text = message.to_string();
        write!(self.to_server, "Content-Length: {}\r\n\r\n{text}", text.len())
    }

    /// The next message that `wanted` wants; others are passed over.
    fn wait(
        &mut self,
        wanted: impl Fn(&Value) -> bool,
    ) -> Result<Value, Box<dyn std::error::Error>> {
        loop {
            let mut line = String::new();
            self.from_server.read_line(&mut line)?;
            let length: usize =
                line.trim().strip_prefix("Content-Length: ").ok_or("no header")?.parse()?;
            self.from_server.read_line(&mut line)?;
            let mut body = vec![0; length];
            self.from_server.read_exact(&mut body)?;
            let message = serde_json::from_slice(&body)?;
            if wanted(&message) {
                return Ok(message);
            }
        }
    }

    fn published(&mut self, version: usize) -> Result<usize, Box<dyn std::error::Error>> {
        let message = self.wait(|message| message["params"]["version"] == version)?;
        Ok(message["params"]["diagnostics"].as_array().map_or(0, Vec::len))
    }
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort();
    times[times.len() / 2].as_secs_f64() * 1e3
}

#[expect(clippy::print_stdout, reason = "it is what a benchmark is for")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (mut stdin, to_server) = std::io::pipe()?;
    let (from_server, mut stdout) = std::io::pipe()?;
    let server = std::thread::spawn(move || {
        let mut io = Io {
            stdin: &mut stdin,
            stdout: &mut stdout,
            stderr: &mut std::io::sink(),
            directory: Default::default(),
            styled: false,
            signals: false,
        };
        tools::relay_opt::main(&["lsp".to_string()], &mut io)
    });
    let mut client = Client { to_server, from_server: BufReader::new(from_server) };
    let request = |id: usize, method: &str, params: Value| json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
    let notification = |method: &str, params: Value| json!({ "jsonrpc": "2.0", "method": method, "params": params });
    let document = json!({ "uri": URI });
    client.send(request(0, "initialize", json!({ "capabilities": {} })))?;
    client.wait(|message| message["id"] == 0)?;
    let text = source();
    println!("{FUNCTIONS} functions, {OPERATIONS} operations each, {} bytes", text.len());
    let start = ProcessTime::now();
    let opened = json!({ "uri": URI, "languageId": "relay", "version": 0, "text": text });
    client.send(notification("textDocument/didOpen", json!({ "textDocument": opened })))?;
    assert_eq!(client.published(0)?, 0);
    println!("opening: {:.1} ms CPU", start.elapsed().as_secs_f64() * 1e3);

    // The function in the middle; each takes its operations and four lines.
    let first = FUNCTIONS / 2 * (OPERATIONS + 4);
    let place = |line: usize, character: usize| json!({ "line": line, "character": character });
    let function = json!({ "start": place(first, 0), "end": place(first + OPERATIONS + 3, 0) });
    let name = json!({ "start": place(first + 3, 7), "end": place(first + 3, 10) });
    let mut id = 0;
    for (title, edits, errors) in [
        ("another operator", ["cos", "exp"], [0, 0]),
        ("a misspelt operator", ["exq", "exp"], [1, 0]),
    ] {
        let (mut cpu, mut wall) = (Vec::new(), Vec::new());
        for edit in 0..EDITS {
            id += 1;
            let (start, clock) = (ProcessTime::now(), Instant::now());
            let change = json!({ "range": name, "text": edits[edit % 2] });
            let params = json!({
                "textDocument": { "uri": URI, "version": id }, "contentChanges": [change],
            });
            client.send(notification("textDocument/didChange", params))?;
            assert_eq!(client.published(id)?, errors[edit % 2]);
            let params = json!({ "textDocument": document, "range": function });
            client.send(request(id, "textDocument/inlayHint", params))?;
            let hints = client.wait(|message| message["id"] == id)?;
            assert!(
                hints["result"]
                    .as_array()
                    .is_some_and(|hints| errors[edit % 2] > 0 || hints.len() == OPERATIONS)
            );
            cpu.push(start.elapsed());
            wall.push(clock.elapsed());
        }
        let (cpu, wall) = (median(cpu), median(wall));
        println!("{title:20} {cpu:6.2} ms CPU, {wall:6.2} ms with the pause before diagnostics");
    }
    client.send(request(id + 1, "shutdown", Value::Null))?;
    client.send(notification("exit", Value::Null))?;
    let status = server.join().map_err(|_| "the server panicked")?;
    assert_eq!(status, 0);
    Ok(())
}
