//! A session of 200 edits on a large module, with a server as a process.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::client::{Client, position};

/// Edits of a session. Every second one takes back the one before it.
pub(crate) const EDITS: usize = 200;

/// One edit, and the answers after it.
#[allow(dead_code, reason = "benchmarks print it")]
pub(crate) struct Step {
    pub(crate) kind: &'static str,
    /// Processor time of the server from the edit to diagnostics and types, where the system tells.
    pub(crate) cpu: Option<Duration>,
    /// The same time on the wall, with the pause before diagnostics.
    pub(crate) wall: Duration,
}

/// What a session took.
#[allow(dead_code, reason = "benchmarks print it")]
pub(crate) struct Session {
    /// Processor time from opening the module to its diagnostics.
    pub(crate) opening: Option<Duration>,
    pub(crate) steps: Vec<Step>,
    /// Bytes that the server holds after edits 50 and 200.
    pub(crate) memory: [usize; 2],
}

/// What an edit is, what it looks for in a function, and what it puts there.
const KINDS: [(&str, &str, &str); 8] = [
    ("another operator", "exp(", "cos("),
    ("a misspelt operator", "exp(", "exq("),
    ("another attribute", "a_max=6f", "a_max=5f"),
    ("a comment in a body", "  %1 =", "  // why\n  %1 ="),
    ("a signature, and errors in the caller", "float32])", "float64])"),
    ("the body of an inferred function", "exp(", "tanh("),
    ("a bracket too many", "exp(", "exp(("),
    ("another function", "def @", "def @another() { 1 }\n\ndef @"),
];

/// Bytes of memory that a process holds; 0 where the system does not tell.
fn resident(process: u32) -> usize {
    let statm = std::fs::read_to_string(format!("/proc/{process}/statm")).unwrap_or_default();
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).unwrap_or(0) * 4096
}

/// Processor time that the threads of a process took, where the system tells.
fn cpu(process: u32) -> Option<Duration> {
    let mut total = 0;
    for task in std::fs::read_dir(format!("/proc/{process}/task")).ok()? {
        let times = std::fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
        total += times.split(' ').next()?.parse::<u64>().ok()?;
    }
    Some(Duration::from_nanos(total))
}

fn since(process: u32, start: Option<Duration>) -> Option<Duration> {
    cpu(process)?.checked_sub(start?)
}

/// The diagnostics, and the types in one function.
fn answers(client: &mut Client, uri: &str, version: i64, range: &Value) -> [Value; 2] {
    let diagnostics = client.diagnostics(uri, version);
    let hints = client.about("textDocument/inlayHint", uri, json!({ "range": range }));
    [diagnostics, hints.unwrap_or_else(|(code, message)| panic!("{code}: {message}"))]
}

/// Runs a session on `text`, which has the functions `@f0`, `@f1` and so on, every tenth without a
/// result type. After every `sample`th edit the answers are compared with those of a server that
/// sees the text for the first time.
pub(crate) fn session(text: &str, functions: usize, sample: usize) -> Session {
    const URI: &str = "file:///module.relay";
    let (mut client, mut fresh) = (Client::ready(), Client::ready());
    let (process, mut text) = (client.process(), text.to_string());
    let start = cpu(process);
    client.open(URI, 0, &text);
    assert_eq!(client.diagnostics(URI, 0), json!([]));
    let opening = since(process, start);
    let (mut steps, mut memory) = (Vec::new(), [0; 2]);
    for edit in 0..EDITS {
        let (pair, version) = (edit / 2, edit as i64 + 1);
        let (kind, from, to) = KINDS[pair % KINDS.len()];
        let own = (pair * 37) % (functions / 10) * 10;
        let function = if kind.contains("inferred") { own + 9 } else { own + 4 };
        let (from, to) = if edit % 2 == 0 { (from, to) } else { (to, from) };
        let head = match (kind, edit % 2) {
            ("another function", 1) => "def @another(".to_string(),
            _ => format!("def @f{function}("),
        };
        let start = text.find(&head).unwrap_or_else(|| panic!("no `{head}`"));
        let at = start + text[start..].find(from).unwrap_or_else(|| panic!("no `{from}`"));
        let range =
            json!({ "start": position(&text, at), "end": position(&text, at + from.len()) });
        text.replace_range(at..at + from.len(), to);
        let end =
            text[at + to.len()..].find("\ndef ").map_or(text.len(), |end| at + to.len() + end);
        let own = json!({ "start": position(&text, start), "end": position(&text, end) });
        let (clock, before) = (Instant::now(), cpu(process));
        client.change(URI, version, json!([{ "range": range, "text": to }]));
        let found = answers(&mut client, URI, version, &own);
        steps.push(Step { kind, cpu: since(process, before), wall: clock.elapsed() });
        if edit % sample == 0 || edit % sample == 1 {
            fresh.open(URI, version, &text);
            let expected = answers(&mut fresh, URI, version, &own);
            assert_eq!(found, expected, "after edit {edit}, {kind}, in @f{function}");
            fresh.close(URI);
        }
        match edit + 1 {
            50 => memory[0] = resident(process),
            EDITS => memory[1] = resident(process),
            _ => {}
        }
    }
    assert!(client.notifications.is_empty(), "{:?}", client.notifications);
    assert_eq!(client.end(), Some(0));
    assert_eq!(fresh.end(), Some(0));
    Session { opening, steps, memory }
}
