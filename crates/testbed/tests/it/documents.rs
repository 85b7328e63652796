//! What the pages name exists: tests, files, links, and lines of the log. Together they stay short.

use std::fs;

use crate::tidy::{assert_none, files, root};

/// Words of README.md and the pages below docs/, the decisions included.
const MAX_WORDS: usize = 45_000;

/// The first cells of all tables of a page whose header begins with this word.
fn first_cells<'a>(page: &'a str, header: &str) -> Vec<&'a str> {
    let mut found = Vec::new();
    let mut is_inside = false;
    for line in page.lines() {
        let Some(row) = line.strip_prefix("| ") else {
            // The line below the header is `|---|`.
            is_inside &= line.starts_with('|');
            continue;
        };
        let cell = row.split(" | ").next().unwrap_or_default();
        if is_inside {
            found.push(cell);
        }
        is_inside |= cell == header;
    }
    assert!(!found.is_empty(), "no table that begins with '{header}'");
    found
}

/// What stands in backquotes.
fn quoted(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

/// The daemons' source code as one line, so that a message broken over several lines is found.
fn sources() -> String {
    let text: String = files(&root(), "rs")
        .iter()
        .filter(|source| source.path.contains("/src/"))
        .map(|source| source.text.replace("\\\n", ""))
        .collect();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn every_log_line_that_needs_action_is_logged() {
    let sources = sources();
    for path in ["docs/operations.md", "docs/high-availability.md"] {
        let page = fs::read_to_string(root().join(path)).expect("the page of operators");
        let missing: Vec<_> = first_cells(&page, "line")
            .into_iter()
            .flat_map(quoted)
            // What varies is left out of the page.
            .filter(|line| {
                !line.split("...").all(|part| sources.contains(part.trim_matches([' ', '(', ')'])))
            })
            .map(str::to_owned)
            .collect();
        assert_none(&format!("{path} quotes lines that are logged"), &missing);
    }
}

#[test]
fn every_path_in_the_pages_exists() {
    let root = root();
    let missing: Vec<_> = files(&root, "md")
        .iter()
        // A decision speaks of its day.
        .filter(|page| !page.path.starts_with("docs/adr/"))
        .flat_map(|page| {
            quoted(&page.text).map(|path| (page.path.as_str(), path)).collect::<Vec<_>>()
        })
        .filter(|(_, path)| {
            let top = path.split('/').next().unwrap_or_default();
            ["crates", "deploy", "docs"].contains(&top) && !path.contains(char::is_whitespace)
        })
        .filter(|(_, path)| !root.join(path).exists())
        .map(|(page, path)| format!("{page}: {path}"))
        .collect();
    assert_none("the pages name files that exist", &missing);
}

#[test]
fn the_tests_that_the_pages_name_exist() {
    let root = root();
    let sources = files(&root.join("crates"), "rs");
    let mut missing = Vec::new();
    for page in files(&root, "md").iter().filter(|page| !page.path.starts_with("docs/adr/")) {
        // `file::name`; the names of tests are sentences.
        for (file, test) in quoted(&page.text).filter_map(|word| word.split_once("::")) {
            if test.matches('_').count() < 3 {
                continue;
            }
            let (file, function) = (format!("/{file}.rs"), format!("fn {test}("));
            let mut at_home = sources.iter().filter(|source| source.path.ends_with(&file));
            if !at_home.any(|source| source.text.contains(&function)) {
                missing.push(format!("{}: {test}", page.path));
            }
        }
    }
    assert_none("the pages name tests that exist", &missing);
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

#[test]
fn the_book_has_every_page() {
    let root = root();
    let summary = fs::read_to_string(root.join("docs/SUMMARY.md")).expect("the book's contents");
    let missing: Vec<_> = files(&root.join("docs"), "md")
        .iter()
        .map(|page| page.path.trim_start_matches("docs/").to_owned())
        .filter(|page| page != "SUMMARY.md")
        .filter(|page| !summary.contains(&format!("({page})")))
        .collect();
    assert_none("docs/SUMMARY.md lists every page", &missing);
}

#[test]
fn the_documents_are_short() {
    let root = root();
    let mut pages = files(&root.join("docs"), "md");
    pages.extend(files(&root, "md").into_iter().filter(|page| page.path == "README.md"));
    let words = |text: &str| text.split_whitespace().count();
    let total: usize = pages.iter().map(|page| words(&page.text)).sum();
    assert!(total > MAX_WORDS / 10, "the pages have moved; this test has to follow");
    assert!(total < MAX_WORDS, "{total} words: cut as many as you add");
}
