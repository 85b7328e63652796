//! Parses a sample settings file into descriptions of the settings.
//!
//! The sample is the description of every setting: `--help` is generated from it, and tests require
//! it to name every setting with its true default. Its format: prose begins with `# `; the setting
//! follows as `#key = value`; tables are `[name]`; an empty line ends a description that belongs to
//! no setting. The value is the default, unless the prose states the default after "By default":
//! then the value is an example.

/// Begins the sentence that states the default of a setting whose value is an example.
const BY_DEFAULT: &str = "By default";

/// A setting as the sample describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Described<'a> {
    /// The tables and the key, joined by dots.
    pub path: String,
    /// As written in TOML.
    pub value: &'a str,
    /// Line by line.
    pub prose: Vec<&'a str>,
}

// === impl Described ===

impl Described<'_> {
    /// Whether the value is only an example.
    pub fn is_example(&self) -> bool {
        self.prose.iter().any(|line| line.contains(BY_DEFAULT))
    }

    /// The variable that carries the setting.
    pub fn variable(&self, prefix: &str) -> String {
        format!("{prefix}{}", self.path.replace('.', "__").to_ascii_uppercase())
    }
}

/// Every setting of the sample, in its order.
pub fn settings(sample: &str) -> Vec<Described<'_>> {
    let mut found = Vec::new();
    let (mut table, mut prose) = (String::new(), Vec::new());
    for line in sample.lines() {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            table = format!("{name}.");
            prose.clear();
        } else if let Some(text) = line.strip_prefix("# ") {
            prose.push(text);
        } else if let Some((key, value)) =
            line.strip_prefix('#').and_then(|it| it.split_once(" = "))
        {
            let path = format!("{table}{key}");
            found.push(Described { path, value, prose: std::mem::take(&mut prose) });
        } else {
            prose.clear();
        }
    }
    found
}

/// The sample with every setting uncommented, for tests that load it; settings for which `keep` is
/// false stay comments.
pub fn uncommented(sample: &str, keep: impl Fn(&Described<'_>) -> bool) -> String {
    let mut described = settings(sample).into_iter();
    let mut lines = Vec::new();
    for line in sample.lines() {
        let is_setting = !line.starts_with("# ") && line.starts_with('#') && line.contains(" = ");
        let kept = is_setting && described.next().is_some_and(|setting| keep(&setting));
        lines.push(if kept { &line[1..] } else { line });
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: &str = "\
# The sample.

# Where it listens.
# No one else may.
#listen = \"127.0.0.1:1\"

[box]
# How deep it is. By default as deep as can be.
#depth = 7
";

    #[test]
    fn settings_are_listed_with_their_descriptions() {
        let found = settings(SAMPLE);
        let [listen, depth] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!((listen.path.as_str(), listen.value), ("listen", "\"127.0.0.1:1\""));
        assert_eq!(listen.prose, ["Where it listens.", "No one else may."]);
        assert_eq!((depth.path.as_str(), depth.value), ("box.depth", "7"));
        assert_eq!((listen.is_example(), depth.is_example()), (false, true));
        assert_eq!(depth.variable("IT_"), "IT_BOX__DEPTH");
    }

    #[test]
    fn the_uncommented_sample_is_a_settings_file() {
        let text = uncommented(SAMPLE, |setting| !setting.is_example());
        assert!(text.contains("\nlisten = \"127.0.0.1:1\"\n"), "{text}");
        assert!(text.contains("\n[box]\n") && text.contains("\n#depth = 7"), "{text}");
        assert!(uncommented(SAMPLE, |_| true).contains("\ndepth = 7"));
    }
}
