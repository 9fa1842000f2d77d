//! Running a program of the system within limits: of time, and of what it prints.

use std::io::{self, Read};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

/// What is kept of each of the two streams; a program may print more, up to [`MOST_PRINTED`].
const KEPT: usize = 1 << 18;

/// A program that prints more is ended.
const MOST_PRINTED: usize = 1 << 24;

/// What a program that ended by itself left.
pub(super) struct Ran {
    pub(super) status: ExitStatus,
    /// The first of its standard output.
    pub(super) out: String,
    /// The first of its standard error.
    pub(super) err: String,
}

/// What a stream gave: its first bytes, or that there are too many.
type Stream = (usize, Option<Vec<u8>>);

/// Runs `command` without input. The error says why it did not start, or that it took longer than
/// `limit` or printed too much; then it was ended, with what it had started.
pub(super) fn run(command: &mut Command, limit: Duration) -> Result<Ran, String> {
    let deadline = Instant::now() + limit;
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // A group of its own, so that what it starts ends with it.
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(command, 0);
    let mut child = command.spawn().map_err(|error| error.to_string())?;
    let (sender, streams) = mpsc::channel();
    follow(0, child.stdout.take(), &sender);
    follow(1, child.stderr.take(), &sender);
    drop(sender);
    let mut texts = [String::new(), String::new()];
    let mut waits = || -> Result<ExitStatus, String> {
        let slow = || format!("it did not end within {} seconds", limit.as_secs());
        for _ in 0..texts.len() {
            let left = deadline.saturating_duration_since(Instant::now());
            match streams.recv_timeout(left) {
                Ok((index, Some(bytes))) => {
                    texts[index] = String::from_utf8_lossy(&bytes).into_owned();
                }
                Ok((_, None)) => return Err(format!("it printed more than {MOST_PRINTED} bytes")),
                Err(RecvTimeoutError::Timeout) => return Err(slow()),
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        loop {
            match child.try_wait().map_err(|error| error.to_string())? {
                Some(status) => return Ok(status),
                None if Instant::now() >= deadline => return Err(slow()),
                None => std::thread::sleep(Duration::from_millis(1)),
            }
        }
    };
    match waits() {
        Ok(status) => {
            let [out, err] = texts;
            Ok(Ran { status, out, err })
        }
        Err(why) => {
            end(&mut child);
            Err(why)
        }
    }
}

/// Reads a stream to its end on a thread of its own, which nobody waits for: what a program started
/// may hold the stream longer than it lives.
fn follow(index: usize, stream: Option<impl Read + Send + 'static>, sender: &Sender<Stream>) {
    let sender = sender.clone();
    std::thread::spawn(move || {
        let bytes = stream.map_or(Some(vec![]), |stream| read(stream).ok().flatten());
        // Nobody waits any more where the program was ended.
        let _ = sender.send((index, bytes));
    });
}

/// The first bytes of a stream; `None` where it has too many.
fn read(mut stream: impl Read) -> io::Result<Option<Vec<u8>>> {
    let (mut kept, mut buffer, mut count) = (Vec::new(), vec![0; 1 << 16], 0usize);
    loop {
        let more = match stream.read(&mut buffer) {
            Ok(0) => return Ok(Some(kept)),
            Ok(more) => more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        count += more;
        if count > MOST_PRINTED {
            return Ok(None);
        }
        let room = KEPT.saturating_sub(kept.len()).min(more);
        kept.extend_from_slice(&buffer[..room]);
    }
}

/// Ends `child`, and what it started.
fn end(child: &mut std::process::Child) {
    // Any of it may have ended by itself just now.
    #[cfg(unix)]
    if let Ok(group) = i32::try_from(child.id()) {
        use nix::sys::signal::{Signal, killpg};
        let _ = killpg(nix::unistd::Pid::from_raw(group), Signal::SIGKILL);
    }
    let _ = child.kill();
    let _ = child.wait();
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    fn shell(text: &str, seconds: f64) -> Result<Ran, String> {
        run(Command::new("sh").args(["-c", text]), Duration::from_secs_f64(seconds))
    }

    #[test]
    fn programs_end_in_time_or_are_ended() {
        let ran = shell("echo out; echo err >&2; exit 3", 60.0).expect("a shell");
        assert_eq!((ran.out.as_str(), ran.err.as_str()), ("out\n", "err\n"));
        assert_eq!(ran.status.code(), Some(3));
        let start = Instant::now();
        let why = shell("sleep 1000 & sleep 1000", 0.2).err();
        assert_eq!(why.as_deref(), Some("it did not end within 0 seconds"));
        let why = shell("yes; true", 60.0).err().expect("a limit");
        assert!(why.starts_with("it printed more than"), "{why}");
        // The streams are closed, and the program goes on.
        assert!(shell("exec >&- 2>&-; sleep 1000", 0.2).is_err());
        assert!(start.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn what_is_long_is_cut() {
        let ran = shell("yes | head -c 1000000", 60.0).expect("a shell");
        assert_eq!(ran.out.len(), KEPT);
    }
}
