//! Which characters of other people's text reach the terminal.

use api_types::text::{is_control, is_directional};

/// A text as a terminal may get it: a message may quote what a node, a task or an archive says,
/// and a control character in it would move the cursor or write to the clipboard.
pub(crate) fn printable(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' | '\t' => safe.push(character),
            control if is_control(control) => safe.extend(control.escape_default()),
            character => safe.push(character),
        }
    }
    safe
}

/// The character as it may stand in a single line or in a table: what would end the line is a space,
/// and what would reorder it is visible.
pub(super) fn on_one_line(character: char) -> char {
    match character {
        _ if is_directional(character) => char::REPLACEMENT_CHARACTER,
        _ if character.is_control() => ' ',
        _ => character,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_cannot_control_the_terminal() {
        assert_eq!(
            printable("a\tb\n\u{1b}]52;c;x\u{7}\r\u{9b}2J"),
            "a\tb\n\\u{1b}]52;c;x\\u{7}\\r\\u{9b}2J"
        );
        assert_eq!(printable("größer"), "größer");
        // Displayed as "exe.txt" without the escape.
        assert_eq!(
            printable("\u{202e}txt.exe\u{2069}\u{2028}"),
            "\\u{202e}txt.exe\\u{2069}\\u{2028}"
        );
    }
}
