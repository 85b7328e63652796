//! One record for people: labels on the left, aligned values on the right, indented sections.

use super::characters::on_one_line;
use super::style::Tone;

/// Longer values are truncated: a data URL may have megabytes.
const MAX_VALUE_CHARS: usize = 200;

#[derive(Debug, Default)]
pub(crate) struct Fields {
    entries: Vec<Entry>,
    indent: usize,
}

#[derive(Debug)]
enum Entry {
    Field { indent: usize, label: String, value: String, tone: Tone },
    Section { indent: usize, title: String },
}

impl Fields {
    pub(crate) fn add(&mut self, label: impl Into<String>, value: impl AsRef<str>) -> &mut Self {
        self.add_toned(label, value, Tone::Plain)
    }

    pub(crate) fn add_toned(
        &mut self,
        label: impl Into<String>,
        value: impl AsRef<str>,
        tone: Tone,
    ) -> &mut Self {
        let value = truncated(value.as_ref());
        let label = label.into();
        self.entries.push(Entry::Field { indent: self.indent, label, value, tone });
        self
    }

    /// Adds the field unless the value is empty.
    pub(crate) fn add_some(&mut self, label: &str, value: impl AsRef<str>) -> &mut Self {
        if !value.as_ref().is_empty() {
            self.add(label, value);
        }
        self
    }

    /// Adds the fields of `inside` below `title`.
    pub(crate) fn section(
        &mut self,
        title: impl Into<String>,
        inside: impl FnOnce(&mut Self),
    ) -> &mut Self {
        self.entries.push(Entry::Section { indent: self.indent, title: title.into() });
        self.indent += 2;
        inside(self);
        self.indent -= 2;
        self
    }

    pub(crate) fn render(&self, colours: bool) -> String {
        // Values of all sections share one column.
        let width = self
            .entries
            .iter()
            .map(|entry| match entry {
                Entry::Field { indent, label, .. } => indent + label.chars().count() + 1,
                Entry::Section { .. } => 0,
            })
            .max()
            .unwrap_or(0);
        let mut text = String::new();
        for entry in &self.entries {
            match entry {
                Entry::Field { indent, label, value, tone } => {
                    let label = format!("{:indent$}{label}:", "");
                    let line = format!("{label:width$}  {}", tone.paint(value, colours));
                    text.push_str(line.trim_end());
                }
                Entry::Section { indent, title } => {
                    text.push_str(&format!("{:indent$}{title}:", ""));
                }
            }
            text.push('\n');
        }
        text
    }
}

fn truncated(value: &str) -> String {
    let mut characters = value.chars().map(on_one_line);
    let mut text: String = characters.by_ref().take(MAX_VALUE_CHARS).collect();
    let rest = characters.count();
    if rest > 0 {
        text.push_str(&format!("… ({rest} more characters)"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_share_one_column() {
        let mut fields = Fields::default();
        fields.add("ID", "j-1").section("Task main", |task| {
            task.add("Engine", "docker").add_some("Image", "");
        });
        assert_eq!(fields.render(false), "ID:        j-1\nTask main:\n  Engine:  docker\n");
    }

    #[test]
    fn a_long_value_is_truncated_with_a_remark() {
        let mut fields = Fields::default();
        fields.add("URL", "x".repeat(MAX_VALUE_CHARS + 7));
        assert!(fields.render(false).ends_with("x… (7 more characters)\n"));
    }
}
