//! The `--help` text, generated from the sample settings file so that the two cannot differ.

use crate::sample;

/// Facts about a daemon.
#[derive(Debug, Clone, Copy)]
pub struct Help<'a> {
    pub program: &'a str,
    /// One sentence.
    pub about: &'a str,
    /// The prefix of its environment variables.
    pub prefix: &'a str,
    /// Its sample settings file.
    pub sample: &'a str,
    /// Other variables: their names and purposes.
    pub variables: &'a [(&'a str, &'a str)],
}

// === impl Help ===

impl Help<'_> {
    pub fn text(&self) -> String {
        let Self { program, about, prefix, sample, variables } = self;
        let mut text = format!(
            "{about}\n\n\
             Usage: {program} [--config FILE] [--health]\n\n\
             Options:\n\
             \x20 --config FILE  read settings from a TOML file\n\
             \x20 --health       ask the daemon that runs with these settings whether it is ready\n\
             \x20 --help         print this\n\
             \x20 --version      print the version\n\n\
             Settings (in FILE by the name in brackets; the environment wins over FILE):\n"
        );
        for setting in sample::settings(sample) {
            text += &format!("  {}  [{}]\n", setting.variable(prefix), setting.path);
            for line in &setting.prose {
                text += &format!("      {line}\n");
            }
            if !setting.is_example() {
                text += &format!("      Default: {}\n", setting.value);
            }
        }
        text += "\nOther variables:\n";
        for (name, what) in *variables {
            text += &format!("  {name}  {what}\n");
        }
        text += "\nExit codes: 0 after a clean stop (of --health: ready), 64 bad settings,\n\
                 69 something that is needed is missing (of --health: not ready).\n";
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_setting_is_listed_with_its_default() {
        let help = Help {
            program: "it",
            about: "It does it.",
            prefix: "IT_",
            sample: "# Where.\n#listen = 1\n\n[box]\n# How deep. By default deep.\n#depth = 7\n",
            variables: &[("RUST_LOG", "what is logged")],
        };
        let text = help.text();
        for part in [
            "It does it.\n\nUsage: it [--config FILE]",
            "  IT_LISTEN  [listen]\n      Where.\n      Default: 1\n",
            "  IT_BOX__DEPTH  [box.depth]\n      How deep. By default deep.\n\nOther",
            "  RUST_LOG  what is logged\n",
        ] {
            assert!(text.contains(part), "{text}");
        }
    }
}
