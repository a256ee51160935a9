//! What operators write: configuration and policies.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use policy::{Inventory, Place, PolicyFile, Rules};
use portreeve::config::{Config, Faults, RawConfig};

/// Configuration is taken or told what is wrong, in lines that are fit to be shown; and the same is said of the same text.
pub fn config(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let load = || -> Result<Config, Faults> {
        let variables = BTreeMap::from([
            ("HOME".to_owned(), "/nonexistent".to_owned()),
            ("TOKEN".to_owned(), CANARY.to_owned()),
        ]);
        RawConfig::from_text(text.to_owned(), PathBuf::from("/nonexistent/fuzz"), variables).try_into()
    };
    let lines = text.lines().count().max(1);
    match load() {
        Ok(config) => {
            toml::from_str::<toml::Table>(text).expect("what is loaded is TOML");
            assert!(
                config
                    .warnings()
                    .iter()
                    .chain(config.obstacles())
                    .all(|remark| remark.line <= lines)
            );
            assert!(load().is_ok());
        }
        Err(faults) => {
            assert!(!faults.as_slice().is_empty());
            for fault in faults.as_slice() {
                assert!(fault.line <= lines + 1, "line {} of {lines}", fault.line);
                let told = fault.to_string();
                assert!(!told.contains(CANARY), "a secret of the environment is told");
                assert!(
                    !told.chars().any(|letter| letter.is_control() && letter != '\n'),
                    "control characters: {told:?}"
                );
            }
            assert_eq!(load().err(), Some(faults), "the same text has other faults");
        }
    }
}

/// The value of a variable that the configuration may refer to and no message may repeat.
const CANARY: &str = "canary-5d1f0c7e";

/// Policies are loaded or told what is wrong and where; ids are each policy's own; a set stands for its text.
pub fn policies(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let mut files = Vec::new();
    for (index, text) in text.split('\0').take(3).enumerate() {
        files.push(PolicyFile {
            name: format!("{index}.cedar"),
            text: text.to_owned(),
        });
    }
    match Rules::load(&files) {
        Ok(rules) => {
            let ids: Vec<&str> = rules.ids().map(AsRef::as_ref).collect();
            assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len(), "one id for two");
            assert!(ids.is_sorted() && ids.iter().all(|id| !id.is_empty() && !id.starts_with("builtin:")));
            let strengths = rules.strengths();
            assert_eq!(strengths.len(), ids.len());
            assert!(strengths.iter().all(|rule| rule.is_among(&strengths)));
            let _ = rules.check_types(&Inventory::default());
            let again = Rules::load(&files).expect("it was loaded before");
            assert_eq!(again.hash(), rules.hash());
            files[0].text.push(' ');
            assert_ne!(
                Rules::load(&files).map(|other| other.hash()).ok(),
                Some(rules.hash()),
                "two texts, one digest"
            );
        }
        Err(faults) => {
            assert!(!faults.is_empty());
            for fault in faults {
                let of = files
                    .iter()
                    .find(|file| file.name == fault.file)
                    .expect("a file that was given");
                match fault.place {
                    Place::Line { line, column } => {
                        // The end of a text lies behind its last line.
                        assert!((1..=of.text.split('\n').count()).contains(&line) && column >= 1);
                    }
                    Place::Policy(position) => assert!(position >= 1 && position <= of.text.len()),
                    Place::File => {}
                }
                assert!(
                    !fault.to_string().chars().any(char::is_control),
                    "control characters: {:?}",
                    fault.to_string()
                );
            }
        }
    }
}
