//! Collects paginated lists.

use api_client::ClientError;

/// Rows per page: few requests for long lists, and a page stays far below the response limit.
const PAGE_ROWS: u32 = 500;

/// The collected items, and whether the list has more.
#[derive(Debug)]
pub(crate) struct Collected<T> {
    pub(crate) items: Vec<T>,
    pub(crate) more: bool,
}

/// Requests pages until `limit` is reached or the list ends.
///
/// `page` receives the number of rows to request and the token of the previous page.
pub(crate) async fn collect<T>(
    limit: Option<u32>,
    mut page: impl AsyncFnMut(u32, Option<String>) -> Result<(Vec<T>, String), ClientError>,
) -> Result<Collected<T>, ClientError> {
    let mut items = Vec::new();
    let mut token = None;
    loop {
        let collected = u32::try_from(items.len()).unwrap_or(u32::MAX);
        let rows = limit.map_or(PAGE_ROWS, |limit| limit.saturating_sub(collected).min(PAGE_ROWS));
        let (rows, next) = page(rows, token.take()).await?;
        items.extend(rows);
        let full = limit.is_some_and(|limit| items.len() >= limit as usize);
        if next.is_empty() || full {
            return Ok(Collected { items, more: !next.is_empty() });
        }
        token = Some(next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Collects a list of `total` rows in pages of at most three.
    async fn served(total: u32, limit: Option<u32>) -> (Vec<u32>, bool) {
        let collected = collect(limit, async |rows, token: Option<String>| {
            let begin = token.map_or(0, |token| token.parse().unwrap());
            let end = total.min(begin + rows.min(3));
            let next = if end < total { end.to_string() } else { String::new() };
            Ok(((begin..end).collect(), next))
        })
        .await
        .unwrap();
        (collected.items, collected.more)
    }

    #[tokio::test]
    async fn pages_are_collected_up_to_the_limit() {
        assert_eq!(served(7, None).await, ((0..7).collect(), false));
        assert_eq!(served(7, Some(5)).await, ((0..5).collect(), true));
        assert_eq!(served(7, Some(7)).await, ((0..7).collect(), false));
        assert_eq!(served(0, Some(5)).await, (vec![], false));
    }
}
