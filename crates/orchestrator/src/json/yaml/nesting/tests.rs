//! YAML that takes the parser long never reaches it, and no other YAML is held up.

use std::time::{Duration, Instant};

use super::*;
use crate::json::yaml::{MAX_YAML_BYTES, to_json};

/// Far more than any of these needs, and far less than the parser alone.
const PATIENCE: Duration = Duration::from_secs(20);

fn depth(text: &str) -> usize {
    let mut scan = Scan::new(text);
    let mut deepest = 0;
    while scan.token() {
        deepest = deepest.max(scan.depth());
    }
    deepest
}

/// As often as it fits into a document of this many bytes.
fn filled(bytes: usize, part: &str) -> String {
    part.repeat(bytes / part.len())
}

#[test]
fn what_takes_the_parser_long_does_not_reach_it() {
    let (large, most) = (250_000, MAX_YAML_BYTES - 1000);
    let hidden = |before: &str| format!("{before}z: {}", filled(large, "{a: "));
    let directives: String =
        (0..60_000).map(|number| format!("%TAG !{number:x}! a\n")).collect::<String>() + "---\na";
    for (what, yaml) in [
        ("mappings in brackets", filled(large, "{a: ")),
        ("lists", filled(most, "[")),
        ("lists of mappings", filled(most, "[{? ")),
        ("brackets, a line each", filled(most, "[\n")),
        ("behind a quote in a text", hidden("a: it's\n")),
        ("behind a text over two lines", hidden("a: b\n  'c\n")),
        ("behind a comment", hidden("a: [b #]\n  ]\n")),
        ("behind a block", hidden("a:\n   b: |\n  \n")),
        ("behind closing brackets", hidden("a: \"]]]]]]\"\nb: |\n ]]]]\n")),
        ("behind line breaks of Unicode", hidden("# it\u{2028}")),
        ("behind a tag", hidden("a: [!<a]]]]>\n  ]\n")),
        ("blocks in a line", filled(most, "- ")),
        ("blocks with keys", filled(most, "? ")),
        ("prefixes of tags", directives),
    ] {
        let begin = Instant::now();
        let refused = to_json(yaml.as_bytes()).unwrap_err();
        assert!(begin.elapsed() < PATIENCE, "{what}: {:?}, {refused}", begin.elapsed());
        assert!(
            refused.contains("levels deep") || refused.contains("lines begin"),
            "{what}: {refused}"
        );
    }
}

#[test]
fn what_is_large_and_flat_is_quick() {
    let most = MAX_YAML_BYTES - 10_000;
    let nested = "{a: ".repeat(MAX_DEPTH - 10) + "1" + &"}".repeat(MAX_DEPTH - 10) + ",";
    let anchors: String = (0..60_000).map(|number| format!("- &a{number} x\n")).collect();
    for (what, yaml) in [
        ("a list", format!("[{}]", filled(most, "a,"))),
        ("deep lists", format!("[{}]", filled(most, &nested))),
        ("a list in lines", filled(most, "- a\n")),
        ("a long key", format!("{}: a", filled(most, "k"))),
        ("a long quoted key", format!("\"{}\": a", filled(most, "k"))),
        ("a long line break", format!("a: b{}c", filled(most, "\n "))),
        ("escapes", format!("\"{}\"", filled(most, "\\x41"))),
        ("documents", filled(most, "--- a\n")),
        ("anchors", anchors),
        ("aliases", format!("a: &a []\nb: [{}]", filled(most, "*a,"))),
        ("merges", format!("a: &a {{}}\n{}", filled(most, "b: {<<: *a}\n"))),
        ("a comment", format!("a: b #{}", filled(most, "["))),
        ("tags", format!("[{}]", filled(most, "!!str a,"))),
    ] {
        let begin = Instant::now();
        let read = to_json(yaml.as_bytes());
        assert!(begin.elapsed() < PATIENCE, "{what}: {:?}", begin.elapsed());
        if let Err(reason) = read {
            assert!(!reason.contains("levels deep"), "{what}: {reason}");
        }
    }
}

#[test]
fn brackets_in_texts_are_no_nesting() {
    let many = "[{(".repeat(1000);
    for yaml in [
        format!("a: b {many}\nc: d"),
        format!("a: 'it''s {many}'"),
        format!("a: \"\\\"{many}\"\nb: [c]"),
        format!("# {many}\na: b # {many}\n"),
        format!("a: |\n  {many}\n\n  - {many}\nb: [c]"),
        format!("a:\n- |-\n {many}\n- >2\n   {many}\n- d"),
        format!("a: b\n  {many}\nc: d"),
        format!("a: |\r\n  {many}\r\n  {many}\r\nb: c\r\n"),
        format!("a: x{many}\n---\n").replace("---\n", ""),
    ] {
        assert!(depth(&yaml) <= 3, "{}: {}", depth(&yaml), &yaml[..20]);
        to_json(yaml.as_bytes()).unwrap();
    }
    let deep = "[".repeat(MAX_DEPTH) + &"]".repeat(MAX_DEPTH);
    assert_eq!(check(&deep), Ok(()));
    let refused = check(&format!("\n\n[{deep}]")).unwrap_err();
    assert!(refused.starts_with("line 3: ") && refused.contains("128 levels"), "{refused}");
}

/// How deep a value is by the parser's own account.
fn true_depth(value: &serde_json::Value) -> usize {
    match value {
        serde_json::Value::Array(items) => 1 + items.iter().map(true_depth).max().unwrap_or(0),
        serde_json::Value::Object(map) => 1 + map.values().map(true_depth).max().unwrap_or(0),
        _ => 0,
    }
}

/// Pieces of documents, and what the parser treats specially.
const PIECES: [&str; 36] = [
    "a", "b: ", "c:\n", "\n", "\n  ", "\n   ", "- ", "? ", ": ", "'", "\"", "''", "\\", "#", " #",
    "|\n", ">-\n", "|2\n", "[", "]", "{", "}", ", ", ",", "&x ", "*x", "!t ", "!!str ", "!<t> ",
    "\t", "\r\n", "---\n", "...\n", "%", "é", "\u{2028}",
];

/// Documents that are tried; one of forty is valid and deep.
const CASES: u64 = 40_000;

/// Numbers that look random and are the same every time (SplitMix64).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let end_as_number = u64::try_from(end).unwrap();
        usize::try_from((mixed ^ (mixed >> 31)) % end_as_number).unwrap()
    }
}

/// Whatever stands before them, brackets that the parser sees are counted.
#[test]
fn no_text_hides_brackets() {
    const DEEP: usize = 20;
    let nest = "{q: ".repeat(DEEP) + "1" + &"}".repeat(DEEP);
    let mut valid = 0;
    for seed in 0..CASES {
        let mut numbers = Numbers(seed);
        let mut text: String =
            (0..numbers.below(14)).map(|_| PIECES[numbers.below(PIECES.len())]).collect();
        text += ["\nz: ", "\n  z: ", "\n- ", "", ", ", "\n"][numbers.below(6)];
        text += &nest;
        text += ["", "]", "}", "\"", "'", "\n"][numbers.below(6)];
        let Ok(json) = to_json(text.as_bytes()) else { continue };
        let value: serde_json::Value = serde_json::from_slice(&json).unwrap();
        let (counted, deepest) = (depth(&text), true_depth(&value));
        // A list below a key may begin at the key's own column.
        assert!(2 * counted >= deepest, "{text:?}: {counted} of {deepest}");
        if deepest > DEEP {
            valid += 1;
            assert!(counted >= DEEP, "{text:?}: {counted} of {deepest}");
        }
    }
    assert!(valid > 500, "{valid}");
}
