//! Amounts of CPU, memory, disk and GPUs.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Most cores that a request may name; a larger number is a typing error.
const MAX_CORES: u64 = 1_000_000;

/// A text that is not a quantity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{text}' is not {expected}")]
pub struct InvalidQuantity {
    pub text: String,
    pub expected: &'static str,
}

/// The least that a container is given: the Docker Engine refuses less.
pub const LEAST_CONTAINER: Resources =
    Resources { cpu_millis: 10, memory_bytes: 6 << 20, disk_bytes: 0, gpus: 0 };

/// Needed, held or free resources, in integer units so that sums are exact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Resources {
    pub cpu_millis: u64,
    pub memory_bytes: u64,
    pub disk_bytes: u64,
    pub gpus: u64,
}

/// Resources as responses contain them: cores (possibly fractional), bytes, a count.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct Capacity {
    #[serde(rename = "CPU")]
    pub cpu: f64,
    #[serde(rename = "Memory")]
    pub memory: u64,
    #[serde(rename = "Disk")]
    pub disk: u64,
    #[serde(rename = "GPU")]
    pub gpu: u64,
}

/// Parses cores (`0.5`, `2`) or millicores (`500m`) into millicores.
pub fn parse_cpu_millis(text: &str) -> Result<u64, InvalidQuantity> {
    let invalid = || InvalidQuantity {
        text: text.to_owned(),
        expected: "an amount of CPU: cores like '0.5' and '2', or millicores like '500m'",
    };
    let trimmed = text.trim();
    let millis = match trimmed.strip_suffix('m') {
        Some(millis) => decimal(millis, 1),
        None => decimal(trimmed, 1000),
    };
    millis.filter(|millis| *millis <= MAX_CORES * 1000).ok_or_else(invalid)
}

/// Parses a number with an optional unit (`512MB`, `2gb` = 2·10⁹, `1Gi` = 2³⁰; none = bytes).
pub fn parse_bytes(text: &str) -> Result<u64, InvalidQuantity> {
    let invalid = || InvalidQuantity {
        text: text.to_owned(),
        expected: "an amount of bytes: a number with an optional unit, like '512MB' or '1Gi'",
    };
    let trimmed = text.trim();
    let split =
        trimmed.find(|character: char| character.is_ascii_alphabetic()).unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(split);
    let factor: u64 = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kb" => 1_000,
        "m" | "mb" => 1_000_000,
        "g" | "gb" => 1_000_000_000,
        "t" | "tb" => 1_000_000_000_000,
        "ki" | "kib" => 1 << 10,
        "mi" | "mib" => 1 << 20,
        "gi" | "gib" => 1 << 30,
        "ti" | "tib" => 1 << 40,
        _ => return Err(invalid()),
    };
    decimal(number.trim_end(), factor)
        .filter(|bytes| i64::try_from(*bytes).is_ok())
        .ok_or_else(invalid)
}

/// Parses a whole number of GPUs.
pub fn parse_gpus(text: &str) -> Result<u64, InvalidQuantity> {
    decimal(text.trim(), 1).filter(|_| !text.contains('.')).filter(|gpus| *gpus <= 1024).ok_or_else(
        || InvalidQuantity { text: text.to_owned(), expected: "a whole number of GPUs" },
    )
}

/// `text × factor`, rounded up; `None` when the text is not a plain decimal number, or too large.
fn decimal(text: &str, factor: u64) -> Option<u64> {
    /// No unit needs more fractional digits.
    const FRACTION_DIGITS: usize = 15;
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if (whole.is_empty() && fraction.is_empty())
        || whole.len() > 19
        || fraction.len() > FRACTION_DIGITS
        || !digits(whole)
        || !digits(fraction)
    {
        return None;
    }
    let scale = 10_u128.pow(u32::try_from(fraction.len()).ok()?);
    let number: u128 = format!("{whole}{fraction}").parse().ok()?;
    u64::try_from((number * u128::from(factor)).div_ceil(scale)).ok()
}

// === impl Resources ===

impl Resources {
    pub const ZERO: Self = Self { cpu_millis: 0, memory_bytes: 0, disk_bytes: 0, gpus: 0 };

    /// What an execution still holds when its process has ended: its results are on the disk.
    #[must_use]
    pub const fn without_process(&self) -> Self {
        Self { disk_bytes: self.disk_bytes, ..Self::ZERO }
    }

    pub fn fits_in(&self, room: &Self) -> bool {
        self.cpu_millis <= room.cpu_millis
            && self.memory_bytes <= room.memory_bytes
            && self.disk_bytes <= room.disk_bytes
            && self.gpus <= room.gpus
    }

    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            cpu_millis: self.cpu_millis.saturating_add(other.cpu_millis),
            memory_bytes: self.memory_bytes.saturating_add(other.memory_bytes),
            disk_bytes: self.disk_bytes.saturating_add(other.disk_bytes),
            gpus: self.gpus.saturating_add(other.gpus),
        }
    }

    /// The smaller amount of each.
    #[must_use]
    pub fn least(&self, other: &Self) -> Self {
        Self {
            cpu_millis: self.cpu_millis.min(other.cpu_millis),
            memory_bytes: self.memory_bytes.min(other.memory_bytes),
            disk_bytes: self.disk_bytes.min(other.disk_bytes),
            gpus: self.gpus.min(other.gpus),
        }
    }

    /// The remainder; zero where `other` is larger (a node whose capacity was lowered while in use).
    #[must_use]
    pub fn minus(&self, other: &Self) -> Self {
        Self {
            cpu_millis: self.cpu_millis.saturating_sub(other.cpu_millis),
            memory_bytes: self.memory_bytes.saturating_sub(other.memory_bytes),
            disk_bytes: self.disk_bytes.saturating_sub(other.disk_bytes),
            gpus: self.gpus.saturating_sub(other.gpus),
        }
    }
}

impl fmt::Display for Resources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cpu_millis, memory_bytes, disk_bytes, gpus } = self;
        write!(f, "{} CPU, {} of memory", Millis(*cpu_millis), Bytes(*memory_bytes))?;
        if *disk_bytes > 0 {
            write!(f, ", {} of disk", Bytes(*disk_bytes))?;
        }
        if *gpus > 0 {
            write!(f, ", {gpus} GPU")?;
        }
        Ok(())
    }
}

/// Displays millicores as cores: `0.5`, `2`.
#[derive(Debug, Clone, Copy)]
pub struct Millis(pub u64);

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = format!("{}.{:03}", self.0 / 1000, self.0 % 1000);
        f.write_str(text.trim_end_matches('0').trim_end_matches('.'))
    }
}

/// Displays bytes in decimal units with at most one fractional digit: `512 MB`, `1.5 GB`.
#[derive(Debug, Clone, Copy)]
pub struct Bytes(pub u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units =
            [(1_000_000_000_000, "TB"), (1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "kB")];
        for (size, unit) in units {
            if self.0 >= size {
                let tenths = u128::from(self.0) * 10 / u128::from(size);
                return match tenths % 10 {
                    0 => write!(f, "{} {unit}", tenths / 10),
                    tenth => write!(f, "{}.{tenth} {unit}", tenths / 10),
                };
            }
        }
        write!(f, "{} B", self.0)
    }
}

// === impl Capacity ===

impl From<Resources> for Capacity {
    fn from(resources: Resources) -> Self {
        Self {
            // Exact for any capacity below 2⁵³ millicores.
            cpu: resources.cpu_millis as f64 / 1000.0,
            memory: resources.memory_bytes,
            disk: resources.disk_bytes,
            gpu: resources.gpus,
        }
    }
}

impl From<Capacity> for Resources {
    fn from(capacity: Capacity) -> Self {
        // `as` saturates: a negative or absurd number becomes zero or the bound.
        #[expect(clippy::cast_possible_truncation, reason = "clamped to a million cores first")]
        #[expect(clippy::cast_sign_loss, reason = "clamped to zero first")]
        let cpu_millis =
            (capacity.cpu * 1000.0).round().clamp(0.0, (MAX_CORES * 1000) as f64) as u64;
        Self {
            cpu_millis,
            memory_bytes: capacity.memory,
            disk_bytes: capacity.disk,
            gpus: capacity.gpu,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_is_parsed_as_cores_or_millicores() {
        for (text, millis) in
            [("0.5", 500), ("2", 2000), ("500m", 500), ("0.1", 100), (".25", 250), (" 1 ", 1000)]
        {
            assert_eq!(parse_cpu_millis(text), Ok(millis), "{text}");
        }
        for text in ["", "-1", "1e3", "two", "0.5.5", "NaN", "99999999999999999999", "m"] {
            assert!(parse_cpu_millis(text).is_err(), "{text}");
        }
    }

    #[test]
    fn bytes_are_parsed_with_decimal_and_binary_units() {
        for (text, bytes) in [
            ("512MB", 512_000_000),
            ("2gb", 2_000_000_000),
            ("1Gi", 1 << 30),
            ("1GiB", 1 << 30),
            ("100", 100),
            ("1.5k", 1500),
            ("10 MB", 10_000_000),
        ] {
            assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
        }
        for text in ["", "MB", "-5MB", "1XB", "99999999TB", "1..2k", "0x10"] {
            assert!(parse_bytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn gpus_are_whole_numbers() {
        assert_eq!(parse_gpus("2"), Ok(2));
        assert!(parse_gpus("0.5").is_err());
        assert!(parse_gpus("all").is_err());
    }

    #[test]
    fn amounts_are_displayed_in_readable_units() {
        let need = Resources { cpu_millis: 1500, memory_bytes: 1_500_000_000, ..Resources::ZERO };
        assert_eq!(need.to_string(), "1.5 CPU, 1.5 GB of memory");
        assert_eq!(Bytes(999).to_string(), "999 B");
    }
}
