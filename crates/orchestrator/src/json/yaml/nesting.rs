//! How deeply a YAML document is nested, found in one pass before it is parsed.
//!
//! The parser compares each token with every open bracket, and each tag with every `%TAG` line, so
//! a short text with many of them takes it minutes. This scan follows the parser's own rules for
//! where a token begins: what stands in quotes, comments and block scalars is text, and a plain
//! scalar continues on the lines that are indented further than what it belongs to. Where a text is
//! wrong, it may count too much but never too little: the parser stops there.

/// Brackets and indentation that may be open at the same time; as deep as JSON may be.
pub(super) const MAX_DEPTH: usize = 128;

/// Lines that begin with `%` before a document: a version, and prefixes of tags, which have no
/// meaning here.
const MAX_DIRECTIVES: usize = 16;

/// Checks a text.
///
/// # Errors
/// The reason why it must not reach the parser, for its author.
pub(super) fn check(text: &str) -> Result<(), String> {
    let mut scan = Scan::new(text);
    while scan.token() {
        if scan.depth() > MAX_DEPTH {
            return Err(format!(
                "line {}: brackets and indentation are nested more than {MAX_DEPTH} levels deep",
                scan.line
            ));
        }
        if scan.directives > MAX_DIRECTIVES {
            return Err(format!("more than {MAX_DIRECTIVES} lines begin with '%'"));
        }
    }
    Ok(())
}

/// Behind the last character.
const END: char = '\0';

struct Scan {
    text: Vec<char>,
    at: usize,
    /// From 1.
    line: usize,
    /// In characters, from 0.
    column: usize,
    /// Open brackets.
    brackets: usize,
    /// The columns at which open collections without brackets begin, each to the right of the one
    /// before.
    indents: Vec<usize>,
    /// Line and column of what is a key if a colon follows.
    key: Option<(usize, usize)>,
    /// Whether the next token may be a key.
    key_allowed: bool,
    directives: usize,
}

// === impl Scan ===

impl Scan {
    fn new(text: &str) -> Self {
        Self {
            text: text.chars().collect(),
            at: 0,
            line: 1,
            column: 0,
            brackets: 0,
            indents: Vec::new(),
            key: None,
            key_allowed: true,
            directives: 0,
        }
    }

    fn depth(&self) -> usize {
        self.brackets + self.indents.len()
    }

    /// Passes one token; `false` at the end.
    fn token(&mut self) -> bool {
        self.skip_to_token();
        if self.at >= self.text.len() {
            return false;
        }
        if self.brackets == 0 {
            self.close(self.column);
        }
        let is_alone = is_blank(self.peek(1));
        match self.peek(0) {
            '%' if self.column == 0 => {
                self.directives += 1;
                self.skip_while(|c| !is_break(c));
            }
            '-' | '.' if self.is_document_mark() => {
                self.indents.clear();
                self.skip(3);
                self.key_allowed = false;
            }
            '[' | '{' => {
                self.may_be_key();
                self.brackets += 1;
                self.skip(1);
                self.key_allowed = true;
            }
            ']' | '}' => {
                self.brackets = self.brackets.saturating_sub(1);
                self.skip(1);
                self.key_allowed = false;
            }
            ',' => {
                self.skip(1);
                self.key_allowed = true;
            }
            '-' if is_alone => {
                self.open(self.column);
                self.skip(1);
                self.key_allowed = true;
            }
            '?' if self.brackets > 0 || is_alone => {
                self.open(self.column);
                self.skip(1);
                self.key_allowed = self.brackets == 0;
            }
            ':' if self.brackets > 0 || is_alone => self.value(),
            '*' | '&' => {
                self.may_be_key();
                self.skip(1);
                self.skip_while(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
            }
            '!' => self.tag(),
            '|' | '>' if self.brackets == 0 => self.block_scalar(),
            quote @ ('\'' | '"') => self.quoted(quote),
            _ => self.plain(),
        }
        true
    }

    /// Passes spaces, comments and line breaks.
    fn skip_to_token(&mut self) {
        loop {
            if self.column == 0 && self.peek(0) == '\u{feff}' {
                self.skip(1);
            }
            self.skip_while(|c| matches!(c, ' ' | '\t'));
            if self.peek(0) == '#' {
                self.skip_while(|c| !is_break(c));
            }
            if !is_break(self.peek(0)) || self.at >= self.text.len() {
                return;
            }
            self.skip(1);
            if self.brackets == 0 {
                self.key_allowed = true;
            }
        }
    }

    /// A colon. The key before it, if there is one, begins a mapping at its column.
    fn value(&mut self) {
        let key = self.key.take().filter(|(line, _)| *line == self.line);
        self.open(key.map_or(self.column, |(_, column)| column));
        self.skip(1);
        self.key_allowed = key.is_none() && self.brackets == 0;
    }

    fn tag(&mut self) {
        self.may_be_key();
        // The parser takes brackets as a part of some tags: those that open count, to be safe.
        while !is_blank(self.peek(0)) {
            self.brackets += usize::from(matches!(self.peek(0), '[' | '{'));
            self.skip(1);
        }
    }

    /// Text between quotes, over any number of lines.
    fn quoted(&mut self, quote: char) {
        self.may_be_key();
        self.skip(1);
        while self.at < self.text.len() {
            match (self.peek(0), self.peek(1)) {
                ('\\', _) if quote == '"' => self.skip(2),
                ('\'', '\'') if quote == '\'' => self.skip(2),
                (found, _) if found == quote => {
                    self.skip(1);
                    return;
                }
                _ => self.skip(1),
            }
        }
    }

    /// The lines below `|` or `>` that are indented further than what they belong to.
    fn block_scalar(&mut self) {
        let parent = self.indents.last().copied();
        self.skip(1);
        let mut given = None;
        while matches!(self.peek(0), '+' | '-' | '0'..='9') {
            given = self.peek(0).to_digit(10).or(given);
            self.skip(1);
        }
        self.skip_while(|c| !is_break(c));
        let least = parent.map_or(1, |parent| parent + 1);
        let mut indent = given.map(|digit| parent.unwrap_or(0) + digit as usize);
        let mut longest_blank = 0;
        loop {
            self.skip_break();
            if self.at >= self.text.len() {
                break;
            }
            let limit = indent.unwrap_or(usize::MAX);
            while self.peek(0) == ' ' && self.column < limit {
                self.skip(1);
            }
            longest_blank = longest_blank.max(self.column);
            if is_break(self.peek(0)) && self.at < self.text.len() {
                continue;
            }
            let indent = *indent.get_or_insert(longest_blank.max(least));
            if self.column < indent {
                break;
            }
            self.skip_while(|c| !is_break(c));
        }
        self.key = None;
        self.key_allowed = true;
    }

    /// Text without quotes. It goes on behind line breaks as far as brackets or indentation let it.
    fn plain(&mut self) {
        self.may_be_key();
        let (first_line, is_in_brackets) = (self.line, self.brackets > 0);
        let least = self.indents.last().map_or(0, |indent| indent + 1);
        loop {
            if self.is_document_mark() || self.peek(0) == '#' {
                break;
            }
            while !is_blank(self.peek(0)) {
                let ends = (self.peek(0) == ':' && is_blank(self.peek(1)))
                    || (is_in_brackets && is_flow_indicator(self.peek(0)));
                if ends {
                    break;
                }
                self.skip(1);
            }
            if !is_blank(self.peek(0)) || self.at >= self.text.len() {
                break;
            }
            self.skip_while(|c| is_blank(c) && c != END);
            if !is_in_brackets && self.column < least {
                break;
            }
        }
        if self.line > first_line {
            self.key_allowed = true;
        }
    }

    /// Notes that a token begins which may turn out to be a key.
    fn may_be_key(&mut self) {
        if self.key_allowed && self.brackets == 0 {
            self.key = Some((self.line, self.column));
        }
        self.key_allowed = false;
    }

    /// Begins a collection at this column, unless one is open there.
    fn open(&mut self, column: usize) {
        if self.brackets == 0 && self.indents.last().is_none_or(|last| *last < column) {
            self.indents.push(column);
        }
    }

    /// Ends the collections to the right of this column.
    fn close(&mut self, column: usize) {
        while self.indents.pop_if(|last| *last > column).is_some() {}
    }

    /// `---` or `...` on a line.
    fn is_document_mark(&self) -> bool {
        let first = self.peek(0);
        self.column == 0
            && matches!(first, '-' | '.')
            && [self.peek(1), self.peek(2)] == [first; 2]
            && is_blank(self.peek(3))
    }

    fn peek(&self, ahead: usize) -> char {
        self.text.get(self.at + ahead).copied().unwrap_or(END)
    }

    fn skip_break(&mut self) {
        let is_pair = (self.peek(0), self.peek(1)) == ('\r', '\n');
        self.skip(if is_pair { 2 } else { 1 });
    }

    fn skip_while(&mut self, goes_on: impl Fn(char) -> bool) {
        while self.at < self.text.len() && goes_on(self.peek(0)) {
            self.skip(1);
        }
    }

    fn skip(&mut self, count: usize) {
        for _ in 0..count {
            let passed = self.peek(0);
            self.at += 1;
            // The break of a line may be two characters.
            if is_break(passed) && (passed, self.peek(0)) != ('\r', '\n') {
                (self.line, self.column) = (self.line + 1, 0);
            } else {
                self.column += 1;
            }
        }
    }
}

fn is_break(c: char) -> bool {
    matches!(c, '\r' | '\n' | '\u{85}' | '\u{2028}' | '\u{2029}' | END)
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t') || is_break(c)
}

fn is_flow_indicator(c: char) -> bool {
    matches!(c, ',' | '[' | ']' | '{' | '}')
}

#[cfg(test)]
mod tests;
