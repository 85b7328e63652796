//! A task's output on a terminal: colours and nothing else that would control it.

/// The end of a line in colour.
const RESET: &str = "\x1b[0m";

/// The most parameters of a colour that are kept; a longer sequence is none.
const MAX_COLOUR_BYTES: usize = 64;

/// Where a stream is in a sequence of control characters, which may be cut between two pieces.
#[derive(Debug, Default)]
enum State {
    #[default]
    Text,
    /// After ESC.
    Escape,
    /// Within `ESC [`, with its parameters so far.
    Control(String),
    /// Within a string, such as a title or the clipboard's content.
    String,
    /// Within a string, after ESC.
    StringEscape,
}

/// Removes from one stream what is neither text nor a colour.
#[derive(Debug, Default)]
pub(crate) struct Colours {
    state: State,
    /// A colour is set, and the end of the line has to reset it.
    coloured: bool,
}

impl Colours {
    /// The text of the next piece of a line. `colours` says whether those of the task are shown.
    pub(crate) fn render(&mut self, piece: &str, colours: bool) -> String {
        let mut text = String::with_capacity(piece.len());
        for character in piece.chars() {
            self.state = match (std::mem::take(&mut self.state), character) {
                (State::Text, '\x1b') => State::Escape,
                // What a terminal would show is what was written over it last.
                (State::Text, '\r') => {
                    text.clear();
                    State::Text
                }
                (State::Text, '\u{9b}') => State::Control(String::new()),
                (State::Text, '\u{90}' | '\u{98}' | '\u{9d}'..='\u{9f}') => State::String,
                (State::Text, shown) => {
                    if shown == '\t' || !shown.is_control() {
                        text.push(shown);
                    }
                    State::Text
                }
                (State::Escape, '[') => State::Control(String::new()),
                (State::Escape, ']' | 'P' | 'X' | '^' | '_') => State::String,
                // Intermediate characters; what follows ends the sequence.
                (State::Escape, '\x1b' | ' '..='/') => State::Escape,
                (State::Escape, _) => State::Text,
                (State::Control(parameters), 'm') => {
                    let is_colour = parameters
                        .bytes()
                        .all(|byte| byte.is_ascii_digit() || matches!(byte, b';' | b':'));
                    if colours && is_colour && parameters.len() <= MAX_COLOUR_BYTES {
                        self.coloured = !matches!(parameters.as_str(), "" | "0");
                        text.push_str(&format!("\x1b[{parameters}m"));
                    }
                    State::Text
                }
                (State::Control(mut parameters), ' '..='?') => {
                    if parameters.len() <= MAX_COLOUR_BYTES {
                        parameters.push(character);
                    }
                    State::Control(parameters)
                }
                (State::Control(_), '\x1b') => State::Escape,
                (State::Control(_), _) => State::Text,
                (State::String, '\x07' | '\u{9c}') => State::Text,
                (State::String, '\x1b') => State::StringEscape,
                (State::String, _) => State::String,
                (State::StringEscape, '\\') => State::Text,
                (State::StringEscape, '\x1b') => State::StringEscape,
                (State::StringEscape, _) => State::String,
            };
        }
        text
    }

    /// What ends the line: no colour continues on the next one, which may be another task's.
    pub(crate) fn end(&mut self) -> &'static str {
        // A string ends with its line: otherwise a task could hide everything after it.
        self.state = State::Text;
        if std::mem::take(&mut self.coloured) { RESET } else { "" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> String {
        let mut colours = Colours::default();
        let shown = colours.render(text, true);
        shown + colours.end()
    }

    #[test]
    fn colours_pass_and_end_with_their_line() {
        assert_eq!(line("\x1b[1;31mred\x1b[0m plain"), "\x1b[1;31mred\x1b[0m plain");
        assert_eq!(line("\x1b[38;2;1;2;3mx"), "\x1b[38;2;1;2;3mx\x1b[0m");
        assert_eq!(Colours::default().render("\x1b[31mred\x1b[m", false), "red");
    }

    #[test]
    fn nothing_else_controls_the_terminal() {
        for (text, shown) in [
            ("a\x1b]52;c;c2VjcmV0\x07b", "ab"),
            ("a\x1b]0;title\x1b\\b", "ab"),
            ("a\u{9d}0;title\u{9c}b", "ab"),
            ("a\x1b[2J\x1b[H\x1b[3Jb", "ab"),
            ("a\x1b[?1049hb\x1bcc\x1b(Bd", "abcd"),
            ("a\x1bP+q544e\x1b\\b", "ab"),
            ("a\x07\x08\u{85}\tb", "a\tb"),
            ("10 %\r20 %\r30 %", "30 %"),
            ("größer 名前", "größer 名前"),
            ("\x1b[>4;1mx\x1b[6nz", "xz"),
        ] {
            assert_eq!(line(text), shown, "{text:?}");
        }
    }

    #[test]
    fn a_sequence_may_be_cut_between_two_pieces_and_ends_with_the_line() {
        let mut colours = Colours::default();
        assert_eq!(colours.render("a\x1b]52;c;", true), "a");
        assert_eq!(colours.render("c2Vj\x07b", true), "b");
        assert_eq!(colours.render("\x1b]0;never ends", true), "");
        colours.end();
        assert_eq!(colours.render("next", true), "next");
    }
}
