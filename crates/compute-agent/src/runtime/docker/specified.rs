//! What a task specifies for this engine, and times as the Engine writes them.

use agent_core::execution::Failure;
use api_types::Timestamp;
use api_types::engine::{DockerParams, NetworkType};
use api_types::image::ImageReference;
use api_types::protocol::Work;

use crate::runtime::ExecutorError;

pub(super) fn params(work: &Work) -> Result<DockerParams, String> {
    let params: DockerParams = serde_json::from_value(work.task.engine.params.clone().into())
        .map_err(|error| format!("the Params of the docker engine are invalid: {error}"))?;
    if params.image.is_empty() {
        return Err("the docker engine needs an Image in its Params".to_owned());
    }
    Ok(params)
}

/// The image, in the only form in which its name leaves this module. Jobs that were stored by older
/// releases may name anything; every node would say the same of them.
pub(super) fn image_of(params: &DockerParams) -> Result<ImageReference, ExecutorError> {
    ImageReference::parse(&params.image).map_err(|error| {
        ExecutorError::Failed(Failure::task(format!("the Image of the task is invalid: {error}")))
    })
}

/// `allowed` says whether tasks may have a network on this node.
pub(super) fn admit_network(network: NetworkType, allowed: bool) -> Result<(), String> {
    match network {
        NetworkType::None => Ok(()),
        NetworkType::Full if allowed => Ok(()),
        NetworkType::Full => {
            Err("tasks have no network on this node (allow_network); supported: None".to_owned())
        }
        NetworkType::Http => Err("network type 'HTTP' is not supported on this node; \
                                  supported: None, Full"
            .to_owned()),
    }
}

/// Parses a time as the Engine writes it; none for its zero value, the year 1.
pub(super) fn moment(text: Option<&str>) -> Option<Timestamp> {
    text.and_then(Timestamp::parse).filter(|moment| *moment > Timestamp::ZERO)
}
