//! The output that a user sees, with values that differ between runs replaced by as many characters,
//! so that tables stay aligned.

use std::fmt;

/// Replaces every time.
const MOMENT: &str = "2026-01-02T03:04:05.000000000Z";

#[derive(Debug)]
pub(crate) struct Transcript {
    pub(crate) line: String,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    /// `None` when a signal ended the program.
    pub(crate) code: Option<i32>,
    pub(crate) url: Option<String>,
}

impl Transcript {
    /// Command, output and exit code, comparable between runs.
    pub(crate) fn normal(&self) -> String {
        Normal::default().all(self)
    }
}

impl fmt::Display for Transcript {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "$ {}\n{}", self.line, self.stdout)?;
        for line in self.stderr.lines() {
            write!(f, "! {line}")?;
            f.write_str("\n")?;
        }
        match self.code {
            Some(0) => Ok(()),
            Some(code) => writeln!(f, "[exit code {code}]"),
            None => writeln!(f, "[killed]"),
        }
    }
}

/// Numbers ids by the order in which they appear.
#[derive(Default)]
struct Normal {
    seen: Vec<String>,
}

impl Normal {
    fn all(&mut self, transcript: &Transcript) -> String {
        let mut text = transcript.to_string();
        if let Some(url) = &transcript.url {
            text = text.replace(url.as_str(), "http://SERVICE");
        }
        let mut out = String::new();
        let mut rest = text.as_str();
        let mut before = ' ';
        while let Some(character) = rest.chars().next() {
            let taken = self
                .id(before, rest)
                .or_else(|| generated_name(before, rest))
                .or_else(|| moment(rest))
                .or_else(|| local_time(before, rest))
                .or_else(|| age(before, rest))
                .or_else(|| nanoseconds(before, rest));
            let (taken, replaced) =
                taken.unwrap_or_else(|| (character.len_utf8(), character.to_string()));
            out.push_str(&replaced);
            before = rest[..taken].chars().next_back().unwrap_or(' ');
            rest = &rest[taken..];
        }
        out
    }

    /// Replaces a full or short id by its number.
    fn id(&mut self, before: char, rest: &str) -> Option<(usize, String)> {
        let (letter, digits) = rest.split_at_checked(2)?;
        if !["j-", "e-", "n-", "v-"].contains(&letter) || before.is_ascii_alphanumeric() {
            return None;
        }
        let short = digits.get(..8).filter(|part| part.bytes().all(|b| b.is_ascii_hexdigit()))?;
        let is_whole = digits.get(..36).is_some_and(|part| {
            part.chars().enumerate().all(|(at, c)| match at {
                8 | 13 | 18 | 23 => c == '-',
                _ => c.is_ascii_hexdigit(),
            })
        });
        let known = self.seen.iter().position(|seen| seen == short);
        let number = known.unwrap_or_else(|| {
            self.seen.push(short.to_owned());
            self.seen.len() - 1
        }) + 1;
        let replaced = if is_whole {
            format!("{letter}{number:08}-0000-4000-8000-{number:012}")
        } else {
            format!("{letter}{number:08}")
        };
        Some((replaced.len(), replaced))
    }
}

/// Replaces the four characters of its ID in the name of a job of the image `ok`.
fn generated_name(before: char, rest: &str) -> Option<(usize, String)> {
    let digits = rest.strip_prefix("ok-")?.get(..4)?;
    let is_one = !before.is_alphanumeric() && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_one.then(|| (7, "ok-0000".to_owned()))
}

fn moment(rest: &str) -> Option<(usize, String)> {
    let shape = |text: &str, length: usize| {
        text.get(..length).is_some_and(|text| {
            text.bytes().zip(MOMENT.bytes()).enumerate().all(|(at, (is, like))| match like {
                _ if at + 1 == length => is == b'Z',
                like if like.is_ascii_digit() => is.is_ascii_digit(),
                like => is == like,
            })
        })
    };
    match () {
        () if shape(rest, MOMENT.len()) => Some((MOMENT.len(), MOMENT.to_owned())),
        () if shape(rest, 20) => Some((20, format!("{}Z", &MOMENT[..19]))),
        () => None,
    }
}

/// Replaces a local time, of which tests have one zone: `2026-11-21 08:49:26 +00:00`,
/// `2026-11-21T08:49:26.123+00:00`, `08:49:26`, and `+0.4 s` since another.
fn local_time(before: char, rest: &str) -> Option<(usize, String)> {
    const SHAPES: [(&str, &str); 4] = [
        ("dddd-dd-ddTdd:dd:dd.ddd+00:00", "2026-01-02T03:04:05.678+00:00"),
        ("dddd-dd-dd dd:dd:dd +00:00", "2026-01-02 03:04:05 +00:00"),
        ("dd:dd:dd", "03:04:05"),
        ("+d.d s", "+0.0 s"),
    ];
    let fits = |shape: &str| {
        rest.get(..shape.len()).is_some_and(|text| {
            text.bytes().zip(shape.bytes()).all(|(is, like)| match like {
                b'd' => is.is_ascii_digit(),
                like => is == like,
            })
        })
    };
    if before.is_ascii_alphanumeric() {
        return None;
    }
    let found = SHAPES.iter().find(|(shape, _)| fits(shape));
    found.map(|(shape, replaced)| (shape.len(), (*replaced).to_owned()))
}

/// Replaces `7s` or `12s`; columns of ages are wide enough for both.
fn age(before: char, rest: &str) -> Option<(usize, String)> {
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    if ![' ', '(', '\n'].contains(&before)
        || digits == 0
        || digits > 2
        || rest.as_bytes().get(digits) != Some(&b's')
    {
        return None;
    }
    let behind = &rest[digits + 1..];
    if behind.starts_with(|character: char| character.is_alphanumeric()) {
        return None;
    }
    // In a column, the second digit used one space of the padding.
    let blank = if digits == 2 && behind.starts_with("  ") { " " } else { "" };
    Some((digits + 1, format!("Ns{blank}")))
}

/// Replaces `CreateTime` and similar timestamps.
fn nanoseconds(before: char, rest: &str) -> Option<(usize, String)> {
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    (digits == 19 && !before.is_ascii_digit()).then(|| (19, "1234567890123456789".to_owned()))
}

#[test]
fn values_that_differ_are_replaced_and_columns_stay_aligned() {
    let transcript = |stdout: &str| Transcript {
        line: "jobctl list".to_owned(),
        stdout: stdout.to_owned(),
        stderr: String::new(),
        code: Some(0),
        url: None,
    };
    let one = transcript(
        "j-12ab34cd  7s   2026-11-21T08:49:26Z\nj-12ab34cd-0000-4000-8000-0123456789ab n-ffffffff\n",
    );
    let other = transcript(
        "j-aaaaaaaa  12s  2026-11-22T09:49:26Z\nj-aaaaaaaa-0000-4000-8000-0123456789ab n-bbbbbbbb\n",
    );
    assert_eq!(one.normal(), other.normal());
    assert_eq!(
        one.normal(),
        "$ jobctl list\nj-00000001  Ns   2026-01-02T03:04:05Z\n\
         j-00000001-0000-4000-8000-000000000001 n-00000002\n"
    );
}
