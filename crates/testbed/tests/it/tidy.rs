//! House rules that contributors need not remember, because they are tests.

use std::fs;
use std::path::{Path, PathBuf};

/// Lines of a file, its tests included.
const MAX_LINES: usize = 400;

/// The scheduler's allowed dependencies: plain data, IDs, hashes, a seeded generator. None of them
/// has a clock, a file or a socket, and the crate itself does not use the standard library.
const BELOW_THE_SCHEDULER: [&str; 9] = [
    "api-types",
    "fixedbitset",
    "hashbrown",
    "rand_chacha",
    "serde",
    "serde_json",
    "siphasher",
    "thiserror",
    "uuid",
];

pub(super) struct Source {
    /// From the root of the repository.
    pub(super) path: String,
    pub(super) text: String,
}

pub(super) fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().expect("this crate is two folders below the root")
}

/// Every file below the folders of the repository that has this extension, in order.
pub(super) fn files(root: &Path, extension: &str) -> Vec<Source> {
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

pub(super) fn assert_none(rule: &str, broken: &[String]) {
    assert!(broken.is_empty(), "{rule}:\n  {}", broken.join("\n  "));
}

#[test]
fn no_file_is_longer_than_can_be_kept_in_mind() {
    let broken: Vec<_> = files(&root(), "rs")
        .iter()
        .map(|source| (source.text.lines().count(), source))
        .filter(|(lines, _)| *lines > MAX_LINES)
        .map(|(lines, source)| format!("{}: {lines}", source.path))
        .collect();
    assert_none(&format!("at most {MAX_LINES} lines"), &broken);
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
fn a_module_lies_next_to_its_folder() {
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
fn the_scheduler_is_pure() {
    let home = root().join("crates/scheduler");
    let manifest = fs::read_to_string(home.join("Cargo.toml")).expect("the scheduler is a crate");
    let below: Vec<_> = manifest
        .lines()
        .skip_while(|line| *line != "[dependencies]")
        .skip(1)
        .take_while(|line| !line.starts_with('['))
        .filter_map(|line| line.split_once(" = "))
        .map(|(name, _)| name)
        .collect();
    assert_eq!(below, BELOW_THE_SCHEDULER, "what the scheduler depends on does no I/O");
    let sources = files(&home.join("src"), "rs");
    let root = sources.iter().find(|source| source.path == "lib.rs").expect("a crate has a root");
    assert!(
        root.text.lines().any(|line| line == "#![no_std]"),
        "the compiler keeps clocks, files and sockets out of the scheduler"
    );
    let broken: Vec<_> = sources
        .iter()
        .filter(|source| source.text.contains("extern crate std"))
        .map(|source| source.path.clone())
        .collect();
    assert_none("the scheduler does without the standard library", &broken);
}

#[test]
fn one_module_of_the_agent_talks_to_the_docker_engine() {
    let root = root();
    let agent = files(&root.join("crates/compute-agent/src"), "rs");
    // bollard's client, however it is imported, and the way to reach any Engine.
    let words = ["bollard::Docker", "use bollard::{", "connect_with_", "hyper::client"];
    let broken: Vec<_> = agent
        .iter()
        .filter(|source| source.path != "runtime/docker/engine/transport.rs")
        .filter(|source| words.iter().any(|word| source.text.contains(word)))
        .map(|source| source.path.clone())
        .collect();
    assert_none("requests to the Engine are made by runtime/docker/engine alone", &broken);
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
fn no_test_is_skipped_but_the_long_ones_and_none_is_meant_to_panic() {
    let refused = [["#[ign", "ore"], ["#[should", "_panic"]].map(|word| word.concat());
    let long = [refused[0].as_str(), " = \"long\"]"].concat();
    let mut broken = Vec::new();
    for source in files(&root(), "rs") {
        for (number, line) in (1..).zip(source.text.lines()) {
            let line = line.trim();
            if line != long && refused.iter().any(|word| line.starts_with(word.as_str())) {
                broken.push(format!("{}:{number}: {line}", source.path));
            }
        }
    }
    assert_none("a test is run, and says what it expects", &broken);
}

/// A target without tests is not compiled as one; a test in it would never run.
#[test]
fn no_test_lies_where_cargo_looks_for_none() {
    let mut broken = Vec::new();
    for manifest in files(&root().join("crates"), "toml") {
        let Some(folder) = manifest.path.strip_suffix("/Cargo.toml") else { continue };
        let without_tests = |title: &str| {
            let mut sections = manifest.text.split("\n[");
            sections.any(|section| section.starts_with(title) && section.contains("\ntest = false"))
        };
        for source in files(&root().join("crates").join(folder).join("src"), "rs") {
            let title = if source.path == "main.rs" { "[bin]]" } else { "lib]" };
            let has_test = source.text.contains("#[test]") || source.text.contains("#[tokio::test");
            if without_tests(title) && has_test {
                broken.push(format!("{folder}/src/{}", source.path));
            }
        }
    }
    assert_none("tests are in targets that are tested; see Cargo.toml", &broken);
}

/// A rule that placed an execution would do so while others with a better rank wait.
#[test]
fn only_placement_occupies_nodes() {
    let callers: Vec<_> = files(&root().join("crates/scheduler/src"), "rs")
        .iter()
        .filter(|source| source.text.replace("fn occupy(", "").contains("occupy("))
        .map(|source| source.path.clone())
        .collect();
    assert_eq!(callers, ["settle/placement.rs"], "`executions::occupy` has one caller");
}

/// Where output of Debug is right: lists of variants' names, and causes that are logged and never
/// sent.
const DEBUG_IS_RIGHT: [&str; 6] = [
    "/openapi/finish.rs",
    "/openapi/golden.rs",
    // A code is its variant's name.
    "jobctl/src/exit.rs",
    "orchestrator/src/spans.rs",
    "/jobs.rs",
    "/protocol.rs",
];

/// Crates whose texts people read.
const SPEAKING: [&str; 11] = [
    "agent-core",
    "api-client",
    "api-types",
    "compute-agent",
    "control-plane",
    "daemon",
    "demo",
    "jobctl",
    "oidc",
    "orchestrator",
    "scheduler",
];

/// A user reads no output of Rust's Debug; logs and panics may have it.
#[test]
fn no_text_for_people_is_output_of_debug() {
    let mut broken = Vec::new();
    for crate_name in SPEAKING {
        for source in files(&root().join("crates").join(crate_name).join("src"), "rs") {
            let path = format!("{crate_name}/src/{}", source.path);
            let is_test = path.ends_with("tests.rs")
                || ["/tests/", "/contract/"].iter().any(|folder| path.contains(folder));
            if is_test || DEBUG_IS_RIGHT.iter().any(|end| path.ends_with(end)) {
                continue;
            }
            // Tests lie at the end of a file.
            let text = source.text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
            for statement in statements(text).filter(|statement| has_debug(statement)) {
                broken.push(format!("{path}: {}", statement.trim()));
            }
        }
    }
    assert_none("texts for people name things in words, not with {:?}", &broken);
}

/// Statements that make texts for people: calls of `format!`, and attributes of errors.
fn statements(text: &str) -> impl Iterator<Item = &str> {
    ["format!(", "#[error("].into_iter().flat_map(move |word| {
        let texts = text.match_indices(word).filter(|(at, _)| {
            let is_transparent = |rest: &str| rest.starts_with("#[error(transparent");
            text.get(*at..).is_some_and(|rest| !is_transparent(rest))
        });
        texts.map(move |(at, _)| {
            let rest = text.get(at..).unwrap_or_default();
            // The end of the literal: a brace of an argument in it ends nothing.
            let quote = rest.find('"').unwrap_or_default();
            let literal = rest.get(quote + 1..).unwrap_or_default();
            let ends = [literal.find("\","), literal.find("\")")];
            let end = ends.into_iter().flatten().min().unwrap_or(0);
            rest.get(..quote + 1 + end).unwrap_or(rest)
        })
    })
}

/// A constant is a duration, of which Debug makes `10s`.
fn has_debug(statement: &str) -> bool {
    let is_constant = |name: &str| name.bytes().all(|b| b.is_ascii_uppercase() || b == b'_');
    statement.contains(":#?}")
        || statement
            .split('{')
            .filter_map(|part| part.split_once(":?}"))
            .any(|(name, _)| name.is_empty() || !is_constant(name))
}

/// Occurrences of an overused word per 100,000 lines of code and documents.
const MAX_PER_100_000_LINES: usize = 10;

/// Words that make a text read like a translation; words of one row count together. They are put
/// together here, so that this file does not count.
const OVERUSED: [&[&str]; 5] = [
    &["be+side", "be+sides"],
    &["mean+while"],
    &["no+body", "some+body", "any+body"],
    &["at on+ce"],
    &["of its o+wn"],
];

/// How often the phrase occurs in the line, as whole words.
fn occurrences(line: &str, phrase: &str) -> usize {
    let is_word = |letter: Option<char>| letter.is_some_and(|it| it.is_alphanumeric() || it == '_');
    line.match_indices(phrase)
        .filter(|(start, _)| !is_word(line[..*start].chars().next_back()))
        .filter(|(start, _)| !is_word(line[start + phrase.len()..].chars().next()))
        .count()
}

#[test]
fn overused_words_are_rare() {
    let root = root();
    let phrases = OVERUSED.map(|row| row.iter().map(|it| it.replace('+', "")).collect::<Vec<_>>());
    let mut lines = 0;
    let mut places = [const { Vec::new() }; OVERUSED.len()];
    for extension in ["rs", "md", "js", "html", "css", "sh", "toml", "yml", "yaml"] {
        for source in files(&root, extension) {
            for (number, line) in (1..).zip(source.text.lines()) {
                lines += 1;
                let line = line.to_lowercase();
                for (row, places) in phrases.iter().zip(&mut places) {
                    let count: usize = row.iter().map(|phrase| occurrences(&line, phrase)).sum();
                    places.extend((0..count).map(|_| format!("{}:{number}", source.path)));
                }
            }
        }
    }
    let most = lines * MAX_PER_100_000_LINES / 100_000;
    for (row, places) in phrases.iter().zip(&places) {
        let rule = format!("{} at most {most} times in {lines} lines", row.join(", "));
        assert_none(&rule, if places.len() > most { places } else { &[] });
    }
}
