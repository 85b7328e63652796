//! What was left out of results: every entry counts, and the first ones are named.

use std::path::Path;

/// Entries that are named; the list ends with the number of the others.
const MAX_NAMED: usize = 50;

/// Characters of one name.
const MAX_NAME_CHARS: usize = 200;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Omitted {
    named: Vec<String>,
    count: usize,
}

// === impl Omitted ===

impl Omitted {
    /// An entry at this path, and why it was left out.
    pub(crate) fn add(&mut self, path: &Path, why: &str) {
        if self.named.len() < MAX_NAMED {
            self.named.push(format!("{}: {why}", shown(path)));
        }
        self.count += 1;
    }

    /// Names the entries without the directory that all of them are in.
    pub(crate) fn strip_first_directory(&mut self) {
        for name in &mut self.named {
            if let Some((_, rest)) = name.split_once('/') {
                *name = rest.to_owned();
            }
        }
    }

    /// Entries below a directory with this name.
    pub(crate) fn add_below(&mut self, directory: &str, other: Self) {
        let free = MAX_NAMED.saturating_sub(self.named.len());
        let named = other.named.into_iter().take(free);
        self.named.extend(named.map(|name| format!("{directory}/{name}")));
        self.count += other.count;
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// For the user.
    pub(crate) fn into_list(self) -> Vec<String> {
        let Self { mut named, count } = self;
        let others = count - named.len();
        if others > 0 {
            named.push(format!("and {others} more"));
        }
        named
    }
}

/// A name for a message, which must not be long.
pub(crate) fn shown(path: &Path) -> String {
    path.display().to_string().chars().take(MAX_NAME_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_entries_are_named_and_all_are_counted() {
        let mut below = Omitted::default();
        for number in 0..MAX_NAMED + 5 {
            below.add(Path::new(&format!("pipe-{number}")), "a named pipe");
        }
        let mut omitted = Omitted::default();
        omitted.add(Path::new("first"), "a device");
        omitted.add_below("out", below);
        assert_eq!(omitted.count(), MAX_NAMED + 6);
        let list = omitted.into_list();
        assert_eq!(list[..2], ["first: a device", "out/pipe-0: a named pipe"]);
        assert_eq!(list.len(), MAX_NAMED + 1);
        assert_eq!(list[MAX_NAMED], "and 6 more");
        assert_eq!(Omitted::default().into_list(), Vec::<String>::new());
    }
}
