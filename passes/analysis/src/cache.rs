//! Results on disk, by what they were made from.
//!
//! An entry is a file named by its key. It holds a line that tells what it is, with a hash of the
//! rest, and the rest: the files that were read to make the result, as they were then, and the
//! result. An entry counts while these files are as they were. **Nobody sees half an entry**: it is
//! written under another name, then renamed. **A broken entry is found when it is read**, and
//! removed. So any number of processes may use a folder at the same time, without locks: the worst
//! that can happen to one is that what it looks for has just been removed.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use ir_core::files::{FilesRead, contents, own_folder};
use ir_core::fingerprint::{Fingerprint, of_bytes};
use rustc_hash::FxHashMap;

/// A folder of results.
#[derive(Debug)]
pub struct Cache {
    folder: PathBuf,
    /// What all entries must have been made by.
    version: String,
    /// How many bytes the entries may take.
    limit: u64,
    /// What files hold that entries depend on, each looked at once.
    now: Mutex<FxHashMap<String, Option<Fingerprint>>>,
}

/// What a cache has under a key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Found {
    /// A result, and the files that it was made from.
    Result(Vec<u8>, FilesRead),
    /// Nothing.
    Nothing,
    /// An entry that cannot be used, which was removed; the reason, for a message.
    Broken(String),
}

const MAGIC: &str = "relay-cache 2";
const ENDING: &str = "result";

impl Cache {
    /// The cache in `folder`, which is made where it does not exist, for results of `version`, of
    /// at most `limit` bytes.
    ///
    /// # Errors
    /// The folder cannot be made, or others may write to it: what they write would be results.
    pub fn at(folder: &Path, version: &str, limit: u64) -> io::Result<Cache> {
        own_folder(folder)?;
        // Versions are part of a line.
        let version = version.replace(['\n', ' '], "_");
        let now = Mutex::default();
        Ok(Cache { folder: folder.to_path_buf(), version, limit, now })
    }

    fn path(&self, key: Fingerprint) -> PathBuf {
        self.folder.join(format!("{key}.{ENDING}"))
    }

    /// What is kept under `key`. It counts as used now.
    pub fn get(&self, key: Fingerprint) -> Found {
        let path = self.path(key);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Found::Nothing,
            Err(error) => return Found::Broken(format!("it cannot be read: {error}")),
        };
        match self.open(key, &bytes) {
            // It is written again.
            Ok((files, _)) if !self.holds(&files) => Found::Nothing,
            Ok((files, result)) => {
                // Where this fails, the entry goes a little early.
                let _ = fs::File::options()
                    .append(true)
                    .open(&path)
                    .and_then(|file| file.set_modified(SystemTime::now()));
                Found::Result(result.to_vec(), files)
            }
            Err(reason) => {
                // It is written again in any case.
                let _ = fs::remove_file(&path);
                Found::Broken(reason)
            }
        }
    }

    /// Whether `files` are as they were.
    fn holds(&self, files: &FilesRead) -> bool {
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        let mut now = |path: &str| *now.entry(path.to_string()).or_insert_with(|| contents(path));
        files.told().is_some_and(|mut files| files.all(|(path, then)| now(path) == then))
    }

    /// The files and the result in an entry.
    fn open<'b>(&self, key: Fingerprint, entry: &'b [u8]) -> Result<(FilesRead, &'b [u8]), String> {
        let end = entry.iter().take(1024).position(|byte| *byte == b'\n');
        let (head, result) = entry.split_at(end.ok_or("it has no first line")? + 1);
        let head = String::from_utf8_lossy(head);
        let rest = head.trim_end().strip_prefix(MAGIC).ok_or("it is no entry of this cache")?;
        let mut fields = rest.trim_start().split(' ');
        let version = fields.next().unwrap_or("");
        if version != self.version {
            return Err(format!("it is of version {version}, not {}", self.version));
        }
        let expected = [key.to_string(), of_bytes([result]).to_string()];
        if !fields.eq(expected.iter().map(String::as_str)) {
            return Err("its contents are not what was written".to_string());
        }
        let mut result = result;
        let files = read_files(&mut result).ok_or("its files cannot be read")?;
        Ok((files, result))
    }

    /// Keeps `result` under `key`, for as long as `files`, which were read to make it, are as they
    /// were. Nothing is kept of what depends on more than can be told. It also removes what was not
    /// used for longest while there is too much.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn put(&self, key: Fingerprint, result: &[u8], files: &FilesRead) -> io::Result<()> {
        self.write(key, result, files)?;
        self.shrink();
        Ok(())
    }

    /// Keeps several results, each under its key, all made from `files`.
    ///
    /// # Errors
    /// One cannot be written; those before it are kept.
    pub fn put_all(&self, results: &[(Fingerprint, Vec<u8>)], files: &FilesRead) -> io::Result<()> {
        let written = results.iter().try_for_each(|(key, result)| self.write(*key, result, files));
        self.shrink();
        written
    }

    fn write(&self, key: Fingerprint, result: &[u8], files: &FilesRead) -> io::Result<()> {
        let Some(mut rest) = files_text(files) else { return Ok(()) };
        rest.extend_from_slice(result);
        let hash = of_bytes([&*rest]);
        let mut entry = format!("{MAGIC} {} {key} {hash}\n", self.version).into_bytes();
        entry.append(&mut rest);
        if entry.len() as u64 > self.limit {
            return Ok(());
        }
        let mut made = tempfile::Builder::new().suffix(".new").tempfile_in(&self.folder)?;
        made.write_all(&entry)?;
        made.persist(self.path(key)).map(drop).map_err(|error| error.error)
    }

    /// Removes the entries that were not used for longest while there are too many, and files that
    /// a process left half written.
    fn shrink(&self) {
        const ABANDONED: std::time::Duration = std::time::Duration::from_secs(3600);
        let Ok(files) = fs::read_dir(&self.folder) else { return };
        let mut entries: Vec<(SystemTime, PathBuf, u64)> = Vec::new();
        for file in files.flatten() {
            // What another process has just removed is gone.
            let Ok(facts) = file.metadata() else { continue };
            let Ok(used) = facts.modified() else { continue };
            let path = file.path();
            match path.extension().and_then(|ending| ending.to_str()) {
                Some(ENDING) => entries.push((used, path, facts.len())),
                Some("new") if used.elapsed().is_ok_and(|age| age > ABANDONED) => {
                    let _ = fs::remove_file(path);
                }
                _ => {}
            }
        }
        let mut total: u64 = entries.iter().map(|(.., size)| size).sum();
        entries.sort();
        for (_, path, size) in entries {
            if total <= self.limit {
                break;
            }
            let _ = fs::remove_file(path);
            total -= size;
        }
    }
}

/// Files with what they held: a line with the length of the path, and what the file held, then the
/// path; behind the last an empty line. `None` where they do not tell what a result depends on.
fn files_text(files: &FilesRead) -> Option<Vec<u8>> {
    let mut text = String::new();
    for (path, contents) in files.told()? {
        let contents = contents.map_or("absent".to_string(), |contents| contents.to_string());
        text += &format!("{} {contents}\n{path}", path.len());
    }
    text += "\n";
    Some(text.into_bytes())
}

/// Takes what [`files_text`] writes off the front of `rest`.
fn read_files(rest: &mut &[u8]) -> Option<FilesRead> {
    let mut files = Vec::new();
    loop {
        let end = rest.iter().position(|byte| *byte == b'\n')?;
        let (line, behind) = (str::from_utf8(&rest[..end]).ok()?, &rest[end + 1..]);
        *rest = behind;
        if line.is_empty() {
            return Some(files.into_iter().collect());
        }
        let (length, contents) = line.split_once(' ')?;
        let (path, behind) = rest.split_at_checked(length.parse().ok()?)?;
        *rest = behind;
        let contents = match contents {
            "absent" => None,
            digits => Some(Fingerprint(u128::from_str_radix(digits, 16).ok()?)),
        };
        files.push((str::from_utf8(path).ok()?.to_string(), contents));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder =
            std::env::temp_dir().join(format!("relay-cache-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        folder
    }

    fn entries(folder: &Path) -> Vec<PathBuf> {
        let files = fs::read_dir(folder).unwrap().flatten();
        files.map(|file| file.path()).collect()
    }

    fn kept(result: &[u8]) -> Found {
        Found::Result(result.to_vec(), FilesRead::default())
    }

    #[test]
    fn results_come_back_until_the_version_changes() {
        let folder = folder("version");
        let cache = Cache::at(&folder, "1", 1 << 20).unwrap();
        let key = of_bytes([&b"key"[..]]);
        assert_eq!(cache.get(key), Found::Nothing);
        cache.put(key, b"result\nof two lines", &FilesRead::default()).unwrap();
        assert_eq!(cache.get(key), kept(b"result\nof two lines"));
        let newer = Cache::at(&folder, "2", 1 << 20).unwrap();
        assert!(matches!(newer.get(key), Found::Broken(_)));
        assert_eq!(newer.get(key), Found::Nothing);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn every_broken_entry_is_found() {
        let folder = folder("broken");
        let cache = Cache::at(&folder, "1", 1 << 20).unwrap();
        let (key, other) = (of_bytes([&b"key"[..]]), of_bytes([&b"other"[..]]));
        cache.put(key, b"result", &FilesRead::default()).unwrap();
        let path = entries(&folder).remove(0);
        let whole = fs::read(&path).unwrap();
        for length in 0..whole.len() {
            fs::write(&path, &whole[..length]).unwrap();
            assert!(matches!(cache.get(key), Found::Broken(_)), "cut to {length}");
        }
        for place in 0..whole.len() {
            let mut changed = whole.clone();
            changed[place] ^= 1;
            fs::write(&path, changed).unwrap();
            assert!(matches!(cache.get(key), Found::Broken(_)), "byte {place}");
        }
        // An entry under another name is not that entry.
        fs::write(cache.path(other), whole).unwrap();
        assert!(matches!(cache.get(other), Found::Broken(_)));
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn results_hold_while_the_files_do() {
        let folder = folder("files");
        let cache = || Cache::at(&folder, "1", 1 << 20).unwrap();
        let key = of_bytes([&b"key"[..]]);
        let path = folder.join("a b\n.rules");
        let (path, absent) = (path.to_str().unwrap(), folder.join("absent.rules"));
        let mut files = FilesRead::default();
        let put = |files: &FilesRead| cache().put(key, b"result", files).unwrap();
        put(&files);
        fs::write(path, "one").unwrap();
        assert!(files.read(path).is_ok() && !files.is_file(absent.to_str().unwrap()));
        put(&files);
        assert_eq!(cache().get(key), Found::Result(b"result".to_vec(), files.clone()));
        fs::write(path, "two").unwrap();
        assert_eq!(cache().get(key), Found::Nothing);
        fs::write(path, "one").unwrap();
        assert!(matches!(cache().get(key), Found::Result(..)));
        fs::write(&absent, "").unwrap();
        assert_eq!(cache().get(key), Found::Nothing);
        // What was read as two things, and what depends on more, says nothing.
        let other = of_bytes([&b"other"[..]]);
        fs::write(path, "two").unwrap();
        assert!(files.read(path).is_ok());
        assert!(files.told().is_none());
        cache().put(other, b"result", &files).unwrap();
        assert_eq!(cache().get(other), Found::Nothing);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn what_was_not_used_for_longest_goes_first() {
        let folder = folder("size");
        let cache = Cache::at(&folder, "1", 5_000).unwrap();
        let key = |number: u32| of_bytes([&number.to_le_bytes()[..]]);
        let age = |number: u32, seconds: u64| {
            let time = SystemTime::now() - std::time::Duration::from_secs(seconds);
            let file = fs::File::options().append(true).open(cache.path(key(number))).unwrap();
            file.set_modified(time).unwrap();
        };
        for number in 0..4 {
            cache.put(key(number), &[0; 1_000], &FilesRead::default()).unwrap();
            age(number, 100 - u64::from(number));
        }
        // The oldest is used once more.
        assert!(matches!(cache.get(key(0)), Found::Result(..)));
        cache.put(key(4), &[0; 1_000], &FilesRead::default()).unwrap();
        let there = (0..5).map(|number| cache.get(key(number)) != Found::Nothing);
        assert_eq!(there.collect::<Vec<_>>(), [true, false, true, true, true]);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn many_may_use_a_folder_at_once() {
        let folder = folder("threads");
        let work = |thread: u32| {
            let cache = Cache::at(&folder, "1", 20_000).unwrap();
            for round in 0..200u32 {
                let key = of_bytes([&((round * 7 + thread) % 40).to_le_bytes()[..]]);
                let result = key.to_string().repeat(30).into_bytes();
                match cache.get(key) {
                    Found::Result(found, _) => assert_eq!(found, result),
                    Found::Nothing => cache.put(key, &result, &FilesRead::default()).unwrap(),
                    Found::Broken(reason) => panic!("{reason}"),
                }
            }
        };
        std::thread::scope(|scope| {
            for thread in 0..8 {
                scope.spawn(move || work(thread));
            }
        });
        assert!(entries(&folder).iter().all(|path| path.extension().is_some_and(|e| e == ENDING)));
        fs::remove_dir_all(folder).unwrap();
    }
}
