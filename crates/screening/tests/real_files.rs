//! False positives in files that people wrote: `make corpus`, or
//! `PORTREEVE_CORPUS=dir:dir cargo test --release -p portreeve-screening --test real_files -- --ignored --nocapture`.

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::{Path, PathBuf};

    use portreeve_screening::detect::{Detector, Excuse, Joins, Piece, PieceKind, Redact};

    /// So many files are looked at, and so many of them may hold something that is masked and is no secret.
    const FILES: usize = 3_000;
    const MOST_WRONG: usize = 2;

    /// Larger files are no tool's answer.
    const LARGEST: u64 = 1 << 20;

    #[test]
    #[ignore = "reads the directories that PORTREEVE_CORPUS names"]
    fn real_files_are_left_alone() {
        #[expect(
            clippy::disallowed_methods,
            reason = "whoever runs it says where the files are; no setting of the product"
        )]
        let directories = std::env::var("PORTREEVE_CORPUS");
        let directories = directories.expect("PORTREEVE_CORPUS names directories, with : between them");
        let mut files = Vec::new();
        for directory in directories.split(':').filter(|directory| !directory.is_empty()) {
            gather(Path::new(directory), &mut files);
        }
        // The same files are chosen wherever the directories lie.
        files.sort_by_cached_key(|(_, name)| (digest(name), name.clone()));
        let detector = Detector::embedded().unwrap();
        let (mut read, mut bytes, mut hinted) = (0, 0, 0);
        // Keys and signed tokens that their authors published are what they are found to be.
        let mut published = Vec::new();
        let mut wrong = BTreeMap::<String, Vec<String>>::new();
        for (path, name) in files {
            let Some(text) = text(&path) else { continue };
            let (masked, told) = found(&detector, &text);
            hinted += usize::from(told);
            match masked {
                Some(rule) if rule.starts_with("private-key-") || rule == "jwt" => published.push(name),
                Some(rule) => wrong.entry(rule).or_default().push(name),
                None => {}
            }
            read += 1;
            bytes += text.len();
            if read == FILES {
                break;
            }
        }
        let count: usize = wrong.values().map(Vec::len).sum();
        println!(
            "{read} files, {} KB: {count} with something masked, {hinted} with something told",
            bytes / 1000
        );
        println!("published keys and tokens: {published:#?}");
        println!("{wrong:#?}");
        assert_eq!(read, FILES, "name more directories");
        assert!(count <= MOST_WRONG, "{count} files");
    }

    /// The rule that would mask something, and whether anything is told.
    fn found(detector: &Detector, text: &str) -> (Option<String>, bool) {
        let quoted = serde_json::to_string(text).unwrap();
        let raw = quoted.get(1..quoted.len() - 1).unwrap();
        let piece = Piece {
            raw: raw.as_bytes(),
            name: None,
            joins: Joins::Nothing,
            kind: PieceKind::Text,
        };
        let found = detector.find(&[piece], &Excuse { server: "", tool: "" });
        let masked = found.iter().find(|finding| finding.redact == Redact::Mask);
        (masked.map(|finding| finding.rule.to_string()), !found.is_empty())
    }

    /// Every file below, with its name from there on. Links are not followed.
    fn gather(directory: &Path, files: &mut Vec<(PathBuf, String)>) {
        let mut open = vec![directory.to_owned()];
        while let Some(at) = open.pop() {
            for entry in std::fs::read_dir(&at).into_iter().flatten().flatten() {
                let Ok(kind) = entry.file_type() else { continue };
                if kind.is_dir() {
                    open.push(entry.path());
                } else if kind.is_file() {
                    let name = entry
                        .path()
                        .strip_prefix(directory)
                        .unwrap()
                        .to_string_lossy()
                        .into_owned();
                    files.push((entry.path(), name));
                }
            }
        }
    }

    fn text(path: &Path) -> Option<String> {
        let length = path.metadata().ok()?.len();
        let text = (200..=LARGEST)
            .contains(&length)
            .then(|| std::fs::read_to_string(path).ok())??;
        (!text.contains('\0')).then_some(text)
    }

    /// FNV-1a.
    fn digest(name: &str) -> u64 {
        name.bytes().fold(0xcbf2_9ce4_8422_2325, |sum, byte| {
            (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        })
    }
}
