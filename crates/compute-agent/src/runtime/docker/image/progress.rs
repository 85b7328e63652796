//! The progress of a pull, from the Engine's messages about its layers.

use std::collections::HashMap;
use std::fmt;

use api_types::quantity::Bytes;
use bollard::models::CreateImageInfo;

/// The progress of one layer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Layer {
    come_bytes: u64,
    /// None until its download starts.
    total_bytes: Option<u64>,
    is_done: bool,
}

/// The progress of all layers that the Engine has named.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Progress {
    layers: HashMap<String, Layer>,
}

// === impl Progress ===

impl Progress {
    /// Applies one message of the Engine.
    pub(super) fn take(&mut self, step: &CreateImageInfo) {
        let (Some(id), Some(status)) = (&step.id, &step.status) else { return };
        // Its id is the tag where other messages have a layer.
        if status.starts_with("Pulling from") {
            return;
        }
        let layer = self.layers.entry(id.clone()).or_default();
        let detail = step.progress_detail.as_ref();
        let bytes = |number: Option<i64>| number.and_then(|number| u64::try_from(number).ok());
        match status.as_str() {
            "Downloading" => {
                layer.come_bytes = bytes(detail.and_then(|detail| detail.current)).unwrap_or(0);
                layer.total_bytes = bytes(detail.and_then(|detail| detail.total))
                    .filter(|total| *total > 0)
                    .or(layer.total_bytes);
            }
            "Verifying Checksum" | "Download complete" | "Extracting" => {
                layer.come_bytes = layer.total_bytes.unwrap_or(layer.come_bytes);
                layer.total_bytes = Some(layer.come_bytes);
            }
            "Pull complete" | "Already exists" => {
                layer.total_bytes.get_or_insert(layer.come_bytes);
                layer.come_bytes = layer.total_bytes.unwrap_or(layer.come_bytes);
                layer.is_done = true;
            }
            // It waits, or is retried.
            _ => {}
        }
    }
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.layers.is_empty() {
            return f.write_str("asking its registry");
        }
        let layers = self.layers.values();
        let come_bytes: u64 = layers.clone().map(|layer| layer.come_bytes).sum();
        let total_bytes: u64 = layers.clone().filter_map(|layer| layer.total_bytes).sum();
        // The Engine learns the size of a layer when its download starts.
        let at_least = match layers.clone().all(|layer| layer.total_bytes.is_some()) {
            true => "",
            false => "at least ",
        };
        let done = layers.filter(|layer| layer.is_done).count();
        write!(
            f,
            "{} of {at_least}{}, {done} of {} layers",
            Bytes(come_bytes),
            Bytes(total_bytes),
            self.layers.len()
        )
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Layer, status, and bytes that came of all.
    type Update<'a> = (&'a str, &'a str, Option<(u64, u64)>);

    fn after(updates: &[Update<'_>]) -> String {
        let mut progress = Progress::default();
        for (id, status, detail) in updates {
            let detail =
                detail.map(|(current, total)| json!({ "current": current, "total": total }));
            let update = json!({ "id": id, "status": status, "progressDetail": detail });
            progress.take(&serde_json::from_value(update).unwrap());
        }
        progress.to_string()
    }

    #[test]
    fn layers_are_summed_up() {
        assert_eq!(after(&[("1", "Pulling from a/b", None)]), "asking its registry");
        let mut steps = vec![
            ("1", "Pulling from a/b", None),
            ("a", "Already exists", None),
            ("b", "Pulling fs layer", None),
            ("c", "Pulling fs layer", None),
            ("c", "Waiting", None),
            ("b", "Downloading", Some((34_000_000, 120_000_000))),
        ];
        assert_eq!(after(&steps), "34 MB of at least 120 MB, 1 of 3 layers");
        steps.push(("c", "Downloading", Some((1_000_000, 2_000_000))));
        assert_eq!(after(&steps), "35 MB of 122 MB, 1 of 3 layers");
        steps.push(("b", "Download complete", None));
        steps.push(("b", "Extracting", Some((5, 120_000_000))));
        assert_eq!(after(&steps), "121 MB of 122 MB, 1 of 3 layers");
        steps.push(("b", "Pull complete", None));
        assert_eq!(after(&steps), "121 MB of 122 MB, 2 of 3 layers");
    }
}
