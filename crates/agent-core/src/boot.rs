//! The boot of the machine that an input belongs to: no process outlives it.

use alloc::format;
use alloc::string::String;

use api_types::Timestamp;
use serde::{Deserialize, Serialize};

/// The time of an input, and the boot in which it arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    pub time: Timestamp,
    pub boot_id: BootId,
}

/// The kernel's ID of one boot of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct BootId(u128);

// === impl BootId ===

impl BootId {
    /// A boot that was not noted: it differs from no other, so that no reboot is assumed.
    pub const UNKNOWN: Self = Self(0);

    pub const fn from_number(number: u128) -> Self {
        Self(number)
    }

    /// Reads an ID as the kernel writes it; anything else is [`BootId::UNKNOWN`].
    pub fn parse(text: &str) -> Self {
        let digits: String = text.trim().chars().filter(|char| *char != '-').collect();
        u128::from_str_radix(&digits, 16).map_or(Self::UNKNOWN, Self)
    }

    /// Whether the machine has certainly restarted between the two.
    pub fn differs_from(self, other: Self) -> bool {
        self != Self::UNKNOWN && other != Self::UNKNOWN && self != other
    }
}

impl From<String> for BootId {
    fn from(text: String) -> Self {
        Self::parse(&text)
    }
}

impl From<BootId> for String {
    fn from(BootId(number): BootId) -> Self {
        format!("{number:032x}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_reads_back_and_an_unknown_one_differs_from_none() {
        let one = BootId::parse("0e5a1f0c-6b7d-4f2e-9a3b-0123456789ab\n");
        let two = BootId::parse("1e5a1f0c-6b7d-4f2e-9a3b-0123456789ab");
        assert_eq!(String::from(one), "0e5a1f0c6b7d4f2e9a3b0123456789ab");
        assert_eq!(BootId::from(String::from(one)), one);
        assert!(one.differs_from(two) && !one.differs_from(one));
        let unknown = BootId::parse("");
        assert_eq!(unknown, BootId::UNKNOWN);
        assert!(!unknown.differs_from(one) && !one.differs_from(unknown));
    }
}
