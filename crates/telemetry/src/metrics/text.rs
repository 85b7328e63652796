//! Converts `OpenMetrics` into the text format 0.0.4 of Prometheus.
//!
//! Samples are the same in both. In the older format, descriptions carry the name of the samples
//! (`_total`, `_info`), there is neither `UNIT` nor `EOF`, and an info is a gauge.

pub(super) fn from_open_metrics(open: &str) -> String {
    let mut text = String::with_capacity(open.len());
    let mut help = None;
    for line in open.lines() {
        let mut words = line.splitn(4, ' ');
        match (words.next(), words.next(), words.next(), words.next()) {
            (Some("#"), Some("HELP"), Some(name), description) => {
                help = Some((name, description.unwrap_or_default()));
            }
            (Some("#"), Some("TYPE"), Some(name), Some(kind)) => {
                let (suffix, kind) = match kind {
                    "counter" => ("_total", "counter"),
                    "info" => ("_info", "gauge"),
                    "unknown" => ("", "untyped"),
                    other => ("", other),
                };
                if let Some((_, description)) =
                    help.take().filter(|(described, _)| *described == name)
                {
                    add(&mut text, &["# HELP ", name, suffix, " ", description]);
                }
                add(&mut text, &["# TYPE ", name, suffix, " ", kind]);
            }
            (Some("#"), ..) => {}
            _ => add(&mut text, &[line]),
        }
    }
    text
}

fn add(text: &mut String, parts: &[&str]) {
    for part in parts {
        text.push_str(part);
    }
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptions_have_the_names_of_their_samples() {
        let open = "# HELP a_seconds How long.\n# TYPE a_seconds counter\n# UNIT a_seconds seconds\n\
                    a_seconds_total{x=\"# y\"} 1.5\n# HELP b What.\n# TYPE b info\nb_info{v=\"1\"} 1\n\
                    # HELP c Now.\n# TYPE c gauge\nc 2\n# EOF\n";
        let expected = "# HELP a_seconds_total How long.\n# TYPE a_seconds_total counter\n\
                        a_seconds_total{x=\"# y\"} 1.5\n# HELP b_info What.\n# TYPE b_info gauge\n\
                        b_info{v=\"1\"} 1\n# HELP c Now.\n# TYPE c gauge\nc 2\n";
        assert_eq!(from_open_metrics(open), expected);
    }
}
