//! House rules that nobody has to remember, because they are tests.

use std::fs;
use std::path::{Path, PathBuf};

/// Lines of a file, its tests not counted.
const MAX_LINES: usize = 400;

/// What the engine must not know of: it is handed the time, ids and randomness, and does no I/O.
const FOREIGN_TO_THE_ENGINE: [&str; 8] = [
    "tokio",
    "SystemTime",
    "Instant",
    "rusqlite",
    "std::fs",
    "std::net",
    "rand::rng",
    "std::thread",
];

struct Source {
    /// From the root of the repository.
    path: String,
    text: String,
}

// === impl Source ===

impl Source {
    /// Up to the inline test module, which always comes last.
    fn without_tests(&self) -> impl Iterator<Item = &str> {
        self.text.lines().take_while(|line| *line != "#[cfg(test)]")
    }

    fn is_test(&self) -> bool {
        self.path.contains("/tests/") || self.path.ends_with("/tests.rs")
    }
}

fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().expect("this crate is two folders below the root")
}

/// Every file below the folders of the repository that has this extension, in order.
fn files(root: &Path, extension: &str) -> Vec<Source> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("the repository can be read") {
            let path = entry.expect("the repository can be read").path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_dir() {
                if name != "target" && name != ".git" {
                    folders.push(path);
                }
            } else if path.extension().is_some_and(|found| found == extension) {
                let relative = path.strip_prefix(root).expect("it was found below the root");
                let text = fs::read_to_string(&path).expect("sources are UTF-8");
                found.push(Source { path: relative.display().to_string(), text });
            }
        }
    }
    assert!(!found.is_empty() || extension != "rs", "no sources below {}", root.display());
    found.sort_by(|one, other| one.path.cmp(&other.path));
    found
}

fn assert_none(rule: &str, broken: &[String]) {
    assert!(broken.is_empty(), "{rule}:\n  {}", broken.join("\n  "));
}

#[test]
fn no_file_is_longer_than_can_be_kept_in_mind() {
    let broken: Vec<_> = files(&root(), "rs")
        .iter()
        .filter(|source| !source.is_test())
        .map(|source| (source.without_tests().count(), source))
        .filter(|(lines, _)| *lines > MAX_LINES)
        .map(|(lines, source)| format!("{}: {lines}", source.path))
        .collect();
    assert_none(&format!("at most {MAX_LINES} lines without tests"), &broken);
}

#[test]
fn every_file_says_first_what_it_is() {
    let broken: Vec<_> = files(&root(), "rs")
        .iter()
        .filter(|source| {
            let first = source.text.lines().next().unwrap_or_default();
            first.strip_prefix("//! ").is_none_or(|said| said.len() <= 10)
        })
        .map(|source| source.path.clone())
        .collect();
    assert_none("the first line is `//! One sentence.`", &broken);
}

#[test]
fn a_module_lies_beside_its_folder() {
    let broken: Vec<_> = files(&root(), "rs")
        .iter()
        .map(|source| source.path.clone())
        .filter(|path| {
            let name = path.rsplit('/').next().unwrap_or_default();
            // Names that say nothing of what is inside.
            ["mod.rs", "util.rs", "utils.rs", "common.rs", "misc.rs", "helpers.rs"].contains(&name)
        })
        .collect();
    assert_none("no mod.rs, and no file that is named after nothing", &broken);
}

#[test]
fn the_engine_is_pure() {
    let mut looked_at = 0;
    let mut broken = Vec::new();
    for source in files(&root().join("crates/orchestrator/src"), "rs") {
        if source.path != "engine.rs" && !source.path.starts_with("engine/") {
            continue;
        }
        looked_at += 1;
        for (number, line) in (1..).zip(source.text.lines()) {
            let code = line.trim_start();
            if code.starts_with("//") {
                continue;
            }
            for word in FOREIGN_TO_THE_ENGINE.iter().filter(|word| code.contains(**word)) {
                broken.push(format!("{}:{number}: {word}", source.path));
            }
        }
    }
    assert!(looked_at > 0, "the engine has moved; this test has to follow");
    assert_none("the engine knows no clock, no randomness and no I/O", &broken);
}

#[test]
fn nothing_names_a_directory_of_the_machine_it_was_written_on() {
    let root = root();
    // Put together, so that this file does not find itself.
    let homes =
        [["/ho", "me/"], ["/Us", "ers/"], ["/ro", "ot/"], ["/wo", "rk/"]].map(|home| home.concat());
    let mut broken = Vec::new();
    for extension in ["rs", "toml", "md", "json", "sh", "yml", "yaml"] {
        for source in files(&root, extension) {
            for (number, line) in (1..).zip(source.text.lines()) {
                if homes.iter().any(|home| line.contains(home)) {
                    broken.push(format!("{}:{number}: {}", source.path, line.trim()));
                }
            }
        }
    }
    assert_none("no path of one machine", &broken);
}

#[test]
fn every_test_is_run_and_none_is_meant_to_panic() {
    let refused = [["#[ign", "ore"], ["#[should", "_panic"]].map(|word| word.concat());
    let mut broken = Vec::new();
    for source in files(&root(), "rs") {
        for (number, line) in (1..).zip(source.text.lines()) {
            if refused.iter().any(|word| line.trim_start().starts_with(word.as_str())) {
                broken.push(format!("{}:{number}: {}", source.path, line.trim()));
            }
        }
    }
    assert_none("a test is run, and says what it expects", &broken);
}

#[test]
fn the_tests_that_the_fault_table_names_are_there() {
    let root = root();
    let sources = files(&root.join("crates"), "rs");
    let page = fs::read_to_string(root.join("docs/testing.md")).expect("the page is there");
    let mut named = 0;
    let mut missing = Vec::new();
    for row in page.lines().filter(|line| line.starts_with("| ")) {
        let quoted = row.split('`').skip(1).step_by(2);
        for (file, test) in quoted.filter_map(|word| word.split_once("::")) {
            if test.is_empty() {
                continue;
            }
            named += 1;
            let (file, test) = (format!("/{file}.rs"), format!("fn {test}("));
            let mut at_home = sources.iter().filter(|source| source.path.ends_with(&file));
            if !at_home.any(|source| source.text.contains(&test)) {
                missing.push(format!("{file}: {test}"));
            }
        }
    }
    assert!(named > 20, "only {named} tests are named; this test has to follow the page");
    assert_none("docs/testing.md names tests that exist", &missing);
}

#[test]
fn links_between_the_documents_lead_somewhere() {
    let root = root();
    let mut broken = Vec::new();
    for source in files(&root, "md") {
        let page = root.join(&source.path);
        let here = page.parent().expect("a file is in a folder");
        for link in source.text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let path = link.split('#').next().unwrap_or_default();
            if !path.is_empty() && !path.contains("://") && !here.join(path).exists() {
                broken.push(format!("{}: {link}", source.path));
            }
        }
    }
    assert_none("no link leads nowhere", &broken);
}
