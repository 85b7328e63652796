//! Leaves the comments of scripts and style sheets at home: a fifth of what a browser would fetch.
//!
//! Only lines that are nothing but comment go, and an empty line takes the place of each, so that
//! errors name the lines of the source. No line of a text that spans several may begin with `//` or
//! `/*`; a test of the files holds them to that.
//!
//! Rejected: a minifier, because what the browser shows should remain what was written.

/// The file as it is served; `None` if it stays as it is.
pub(crate) fn left_out(path: &str, text: &str) -> Option<String> {
    let is_script = path.ends_with(".js");
    if !is_script && !path.ends_with(".css") {
        return None;
    }
    let mut kept = String::with_capacity(text.len());
    let mut is_inside = false;
    for line in text.split_inclusive('\n') {
        let trimmed = line.trim();
        let end = trimmed.find("*/").map(|at| at + 2);
        let begins = trimmed.starts_with("/*");
        let is_comment = match end {
            _ if is_script && !is_inside && trimmed.starts_with("//") => true,
            // A cast stands before what it applies to, and is no comment.
            Some(end) => end == trimmed.len() && (is_inside || begins),
            None => is_inside || begins,
        };
        is_inside = (is_inside || begins) && end.is_none();
        kept.push_str(if is_comment { "\n" } else { line });
    }
    Some(kept)
}

#[cfg(test)]
mod tests {
    use super::left_out;

    #[test]
    fn lines_of_comments_become_empty_lines() {
        let script = "// What it is.\n\n/** @type {string} */\nlet a = \"//\"; // why\n/**\n * More.\n \
                      */\n  /** @type {any} */ (a).b();\n// The end: */\nurl(`a/*`);\n";
        let served =
            "\n\n\nlet a = \"//\"; // why\n\n\n\n  /** @type {any} */ (a).b();\n\nurl(`a/*`);\n";
        assert_eq!(left_out("a.js", script).as_deref(), Some(served));
    }

    #[test]
    fn style_sheets_have_one_kind_of_comment() {
        let sheet =
            "/* What it is. */\n\na {\n  /* Two\n     lines. */\n  color: red; /* why */\n}\n";
        let served = "\n\na {\n\n\n  color: red; /* why */\n}\n";
        assert_eq!(left_out("a.css", sheet).as_deref(), Some(served));
    }

    #[test]
    fn other_files_stay_as_they_are() {
        assert_eq!(left_out("icon.svg", "<!-- // -->\n// text\n"), None);
    }
}
