//! Settings of the trace export.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Path that OTLP over HTTP appends to the base URL of a collector.
const TRACES_PATH: &str = "/v1/traces";

/// The settings below `otlp`.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OtlpSettings {
    /// Base URL of a collector, like `http://127.0.0.1:4318`; empty turns tracing off.
    pub endpoint: String,
    /// Headers of every request, for collectors that require authentication; secret.
    #[serde(deserialize_with = "headers", serialize_with = "line_of_headers")]
    pub headers: BTreeMap<String, String>,
    /// Fraction of jobs that are traced, from 0 to 1.
    pub sampling_ratio: f64,
}

// === impl OtlpSettings ===

impl OtlpSettings {
    /// Validates the settings.
    ///
    /// # Errors
    /// The name of the invalid setting and the reason.
    pub fn check(&self) -> Result<(), (&'static str, String)> {
        if !self.endpoint.is_empty() {
            let url = reqwest::Url::parse(&self.endpoint);
            if !url.is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host()) {
                let reason = "is not an http or https URL, like http://127.0.0.1:4318";
                return Err(("otlp.endpoint", reason.to_owned()));
            }
        }
        if !(0.0..=1.0).contains(&self.sampling_ratio) {
            let reason = format!("must be between 0 and 1, got {}", self.sampling_ratio);
            return Err(("otlp.sampling_ratio", reason));
        }
        for (name, value) in &self.headers {
            let named = http::HeaderName::from_bytes(name.as_bytes()).is_ok();
            // The message omits the value, which is probably a credential.
            if !named || http::HeaderValue::from_str(value).is_err() {
                let reason = format!(
                    "'{name}' is not a valid header name, or its value is not a valid header value"
                );
                return Err(("otlp.headers", reason));
            }
        }
        Ok(())
    }

    /// URL to which spans are sent, if any.
    pub(super) fn traces_endpoint(&self) -> Option<String> {
        let base = self.endpoint.trim_end_matches('/');
        match base {
            "" => None,
            whole if whole.ends_with(TRACES_PATH) => Some(whole.to_owned()),
            base => Some(format!("{base}{TRACES_PATH}")),
        }
    }

    /// Upper bound of the sampling hash of traced jobs; `None` when all jobs are traced.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "the ratio is between 0 and 1, and sampling tolerates rounding"
    )]
    pub(super) fn threshold(&self) -> Option<u64> {
        (self.sampling_ratio < 1.0).then_some((self.sampling_ratio * u64::MAX as f64) as u64)
    }
}

impl Default for OtlpSettings {
    fn default() -> Self {
        Self { endpoint: String::new(), headers: BTreeMap::new(), sampling_ratio: 1.0 }
    }
}

impl fmt::Debug for OtlpSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.headers.keys().collect();
        f.debug_struct("OtlpSettings")
            .field("endpoint", &self.endpoint)
            .field("headers", &names)
            .field("sampling_ratio", &self.sampling_ratio)
            .finish()
    }
}

/// Writes the headers in the format of environment variables.
fn line_of_headers<S: Serializer>(
    headers: &BTreeMap<String, String>,
    to: S,
) -> Result<S::Ok, S::Error> {
    let pairs: Vec<_> = headers.iter().map(|(name, value)| format!("{name}={value}")).collect();
    to.serialize_str(&pairs.join(","))
}

/// Reads a table, or `name=value,name=value` from an environment variable.
fn headers<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<String, String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Form {
        Table(BTreeMap<String, String>),
        Line(String),
    }
    match Form::deserialize(from)? {
        Form::Table(headers) => Ok(headers),
        Form::Line(line) => line
            .split(',')
            .filter(|pair| !pair.trim().is_empty())
            .map(|pair| {
                let (name, value) = pair.split_once('=').ok_or_else(|| {
                    serde::de::Error::custom("headers must have the form name=value,name=value")
                })?;
                Ok((name.trim().to_owned(), value.trim().to_owned()))
            })
            .collect(),
    }
}
