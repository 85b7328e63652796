//! What tasks write to the volumes that their image declares.
//!
//! Only the Engine may look into them, and it measures all volumes at a time.

use std::collections::BTreeSet;

use bollard::Docker;
use bollard::models::{ContainerInspectResponse, Volume};
use bollard::query_parameters::{DataUsageOptions, ListVolumesOptions};
use http::Uri;

use super::error;
use crate::runtime::ExecutorError;

/// The volumes of a container; the agent itself mounts none.
pub(super) fn of(container: &ContainerInspectResponse) -> BTreeSet<String> {
    let mounts = container.mounts.iter().flatten();
    mounts
        .filter(|mount| mount.typ.as_deref() == Some("volume"))
        .filter_map(|mount| mount.name.clone())
        .collect()
}

/// The bytes in these volumes.
pub(super) async fn written_bytes(
    client: &Docker,
    wanted: &BTreeSet<String>,
) -> Result<u64, ExecutorError> {
    let volumes = measured(client).await.map_err(|error| {
        // The Engine serves one such request at a time; the caller retries.
        error::unreachable(format!("cannot measure volumes: {}", error::chain(&error)))
    })?;
    let sizes = volumes.into_iter().filter(|volume| wanted.contains(&volume.name));
    let sizes = sizes.filter_map(|volume| u64::try_from(volume.usage_data?.size).ok());
    Ok(sizes.fold(0, u64::saturating_add))
}

/// Every volume, with its size. Engines before API 1.52 answer in a form that the client has no
/// type for, except that a list of volumes has the same.
async fn measured(client: &Docker) -> Result<Vec<Volume>, bollard::errors::Error> {
    let measuring = client.clone().with_request_modifier(|mut request| {
        if let Some(uri) = measurement(request.uri()) {
            *request.uri_mut() = uri;
        }
        request
    });
    if let Some(volumes) = measuring.list_volumes(None::<ListVolumesOptions>).await?.volumes {
        return Ok(volumes);
    }
    let options = DataUsageOptions { _type: None, verbose: true };
    let items = client.df(Some(options)).await?.volume_usage.and_then(|usage| usage.items);
    let volumes = items.into_iter().flatten().map(serde_json::from_value);
    Ok(volumes.filter_map(Result::ok).collect())
}

/// Where the Engine measures, instead of only listing.
fn measurement(list: &Uri) -> Option<Uri> {
    let text = list.to_string();
    let base = text.split('?').next()?.strip_suffix("/volumes")?;
    format!("{base}/system/df?type=volume").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_measurement_is_asked_of_the_same_engine_and_version() {
        let list = "http://2f7661/v1.50/volumes".parse().unwrap();
        let expected = "http://2f7661/v1.50/system/df?type=volume";
        assert_eq!(measurement(&list).unwrap().to_string(), expected);
        let with_query = "unix://2f7661/volumes?".parse().unwrap();
        let expected = "unix://2f7661/system/df?type=volume";
        assert_eq!(measurement(&with_query).unwrap().to_string(), expected);
        assert_eq!(measurement(&"http://2f/containers".parse().unwrap()), None);
    }
}
