//! The argument of `--publisher`.

use anyhow::Result;
use api_types::submission::TypedSubmission;
use serde_json::{Map, Value};

use super::source::bucket_and_key;

/// Parses `local`, `ipfs`, `noop` or `s3://BUCKET/KEY`; the service refuses any other word.
pub(super) fn publisher(text: &str) -> Result<TypedSubmission> {
    let Some(rest) = text.strip_prefix("s3://") else {
        return Ok(TypedSubmission { kind: Some(text.to_owned()), params: None });
    };
    let (bucket, key) = bucket_and_key(text, rest)?;
    let params = Map::from_iter([
        ("Bucket".to_owned(), Value::from(bucket)),
        ("Key".to_owned(), Value::from(key)),
    ]);
    Ok(TypedSubmission { kind: Some("s3".to_owned()), params: Some(params) })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_publisher_is_a_word_or_an_s3_url() {
        assert_eq!(publisher("local").unwrap().kind.as_deref(), Some("local"));
        let s3 = publisher("s3://b/{jobID}/x.tar.gz").unwrap();
        assert_eq!(s3.kind.as_deref(), Some("s3"));
        let params = json!({ "Bucket": "b", "Key": "{jobID}/x.tar.gz" });
        assert_eq!(Value::Object(s3.params.unwrap()), params);
        assert!(publisher("s3://b").is_err());
    }
}
