//! What no text for users contains.

/// What the text contains that its reader could not use: the ID of a record that has an index or a
/// name, output of Rust's Debug, a path of the node.
pub fn flaw(text: &str) -> Option<String> {
    let id = text.char_indices().find_map(|(at, _)| id_at(text, at));
    let debug = ["Some(", "Err(", "Ok(", "Os {", "Error {", "Kind(", "Custom {"];
    let debug = debug.into_iter().find(|word| text.contains(word)).map(str::to_owned);
    let paths = ["/executions/e-", "/published/e-", "/ledger.sqlite", "/crates/"];
    let path = paths.into_iter().find(|path| text.contains(path)).map(str::to_owned);
    id.or(debug).or(path)
}

/// A full ID of an execution or a node that begins here, unless it is a part of a key, a URL or a
/// command, or the quoted text of the caller; `for path` comes before a key.
fn id_at(text: &str, at: usize) -> Option<String> {
    let before = text.get(..at)?;
    let is_quoted = before.ends_with(['/', '=', '-', '_', '\'']);
    if is_quoted || ["--for ", "for path "].iter().any(|words| before.ends_with(words)) {
        return None;
    }
    let rest = text.get(at..)?;
    let id = rest.get(..2 + 36)?;
    let (kind, uuid) = id.split_at_checked(2)?;
    let groups: Vec<_> = uuid.split('-').map(str::len).collect();
    let is_hex = uuid.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    (["e-", "n-"].contains(&kind) && groups == [8, 4, 4, 4, 12] && is_hex).then(|| id.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flaws_are_found_and_plain_words_are_none() {
        for fine in [
            "",
            "[0] on node-a: exit code 137 (SIGKILL); next try at 2026-11-21T08:49:26Z",
            "/results: nothing is there; e-12ab34cd or so",
            "é: not found",
            "variables called SERVICE_… are set by the agent, whatever the job says",
            "s3://bucket/e-2c8b2de0-03e2-42a7-9e94-c50cbe7c0e78/result: access denied",
        ] {
            assert_eq!(flaw(fine), None, "{fine}");
        }
        let id = "e-2c8b2de0-03e2-42a7-9e94-c50cbe7c0e78";
        assert_eq!(flaw(&format!("execution {id} failed")), Some(id.to_owned()));
        assert_eq!(flaw("open: Os { code: 2 }"), Some("Os {".to_owned()));
        assert_eq!(flaw(&format!("no execution matches '{id}'")), None);
        let path = "/var/lib/agent/executions/e-2c8b/inputs/0: gone";
        assert_eq!(flaw(path), Some("/executions/e-".to_owned()));
    }
}
