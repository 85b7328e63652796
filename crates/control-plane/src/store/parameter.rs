//! What a statement that is built from a query compares with.

/// The value of a numbered parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Parameter {
    Integer(i64),
    Text(String),
    Bytes(Vec<u8>),
    /// One parameter, so that one statement serves any number of values.
    Texts(Vec<String>),
}

/// Values for the numbered parameters of a statement, `?1` and so on, which it may repeat.
#[derive(Debug, Default)]
pub(super) struct Parameters(pub(super) Vec<Parameter>);

// === impl Parameter, Parameters ===

impl From<i64> for Parameter {
    fn from(value: i64) -> Self {
        Self::Integer(value)
    }
}

impl From<u32> for Parameter {
    fn from(value: u32) -> Self {
        Self::Integer(value.into())
    }
}

impl From<&str> for Parameter {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

impl From<String> for Parameter {
    fn from(value: String) -> Self {
        Self::Text(value)
    }
}

impl From<Vec<u8>> for Parameter {
    fn from(value: Vec<u8>) -> Self {
        Self::Bytes(value)
    }
}

impl From<[u8; 16]> for Parameter {
    fn from(value: [u8; 16]) -> Self {
        Self::Bytes(value.to_vec())
    }
}

impl Parameters {
    /// Returns the parameter's place in the statement.
    pub(super) fn bind(&mut self, value: impl Into<Parameter>) -> String {
        self.0.push(value.into());
        format!("?{}", self.0.len())
    }
}
