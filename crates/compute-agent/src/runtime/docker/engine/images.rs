//! Requests about images. An image is named by an [`ImageReference`] and by nothing else.

use api_types::image::ImageReference;
use bollard::errors::Error;
use bollard::models::{BuildInfo, CreateImageInfo, ErrorDetail, ImageInspect, ImageSummary};
use bollard::query_parameters::{ImportImageOptions, ListImagesOptions, RemoveImageOptions};
use bytes::Bytes;
use futures_util::future::ready;
use futures_util::stream::{self, BoxStream, StreamExt, TryStreamExt};
use http::Method;

use super::Engine;
use super::answer::too_long;
use super::frames::{Elements, JsonLines};
use super::request::{Request, Segment};

/// Images of one list. Far more than a node's disk holds.
const MAX_IMAGES: usize = 100_000;

// === impl Engine: images ===

impl Engine {
    pub(in super::super) async fn inspect_image(
        &self,
        image: &ImageReference,
    ) -> Result<ImageInspect, Error> {
        let path = [Segment::Word("images"), Segment::Image(image), Segment::Word("json")];
        self.value(Request::new(Method::GET, &path)).await
    }

    /// Without labels, which come from the images.
    pub(in super::super) async fn list_images(
        &self,
        options: Option<ListImagesOptions>,
    ) -> Result<Vec<ImageSummary>, Error> {
        let path = [Segment::Word("images"), Segment::Word("json")];
        let request = Request::new(Method::GET, &path).query(&options.unwrap_or_default())?;
        let listing = self.send(request).await?.cut(Elements::<ImageSummary>::new());
        let mut listing = std::pin::pin!(listing);
        let mut images = Vec::new();
        let reading = tokio::time::timeout(self.timeout, async {
            while let Some(mut image) = listing.try_next().await? {
                if images.len() == MAX_IMAGES {
                    return Err(too_long("its list, in images,", MAX_IMAGES));
                }
                image.labels.clear();
                images.push(image);
            }
            Ok(())
        });
        reading.await.unwrap_or(Err(Error::RequestTimeoutError))?;
        Ok(images)
    }

    /// The progress of a pull, until its end; an ID cannot be pulled.
    pub(in super::super) fn create_image(
        &self,
        image: &ImageReference,
    ) -> BoxStream<'static, Result<CreateImageInfo, Error>> {
        let path = [Segment::Word("images"), Segment::Word("create")];
        let (name, tag) = image.pulled().unwrap_or_default();
        let query = [("fromImage", name), ("tag", tag)];
        let request = Request::new(Method::POST, &path).query(&query);
        let engine = self.clone();
        let steps =
            async move { Ok::<_, Error>(engine.send(request?).await?.cut(JsonLines::new())) };
        let steps = stream::once(steps).try_flatten();
        let checked = steps.and_then(|step: CreateImageInfo| {
            ready(match failure(&step.error_detail) {
                Some(error) => Err(error),
                None => Ok(step),
            })
        });
        checked.boxed()
    }

    /// Loads an archive of images.
    pub(in super::super) async fn import_image(
        &self,
        options: ImportImageOptions,
        archive: Bytes,
    ) -> Result<(), Error> {
        let path = [Segment::Word("images"), Segment::Word("load")];
        let request = Request::new(Method::POST, &path).query(&options)?.tar(archive);
        let mut steps =
            std::pin::pin!(self.send(request).await?.cut(JsonLines::<BuildInfo>::new()));
        let reading = tokio::time::timeout(self.timeout, async {
            while let Some(step) = steps.try_next().await? {
                if let Some(error) = failure(&step.error_detail) {
                    return Err(error);
                }
            }
            Ok(())
        });
        reading.await.unwrap_or(Err(Error::RequestTimeoutError))
    }

    pub(in super::super) async fn remove_image(
        &self,
        image: &ImageReference,
        options: Option<RemoveImageOptions>,
    ) -> Result<(), Error> {
        let path = [Segment::Word("images"), Segment::Image(image)];
        let request = Request::new(Method::DELETE, &path);
        self.done(request.query(&options.unwrap_or_default())?).await
    }
}

fn failure(detail: &Option<ErrorDetail>) -> Option<Error> {
    let message = detail.as_ref()?.message.clone()?;
    Some(Error::DockerStreamError { error: message })
}
