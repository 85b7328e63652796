//! Pages of the list of executions: the query, and the position in `next_token`.
//!
//! The list is ordered by ID, and a position is the last ID of a page, so executions that come and
//! go in between neither repeat nor hide others.

use api_types::protocol::{ListLocalExecutions, LocalExecution};
use api_types::{ApiError, Code, ExecutionId};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use daemon::http::{InvalidQuery, Query};
use ring::digest;
use uuid::Uuid;

use super::failure::Failure;

/// Incremented when the token format changes; older tokens are refused.
const FORMAT: u8 = 1;

const CHECKSUM_BYTES: usize = 8;

/// Executions of a page whose query names no limit.
const DEFAULT_LIMIT: u32 = 100;

/// The only sort key.
const ORDERS: [(&str, ()); 1] = [("id", ())];

/// Which page is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PageQuery {
    limit: u32,
    reverse: bool,
    after: Option<ExecutionId>,
}

// === impl PageQuery ===

impl PageQuery {
    pub(super) fn read(query: &Query) -> Result<Self, Failure> {
        let refused = |refused: InvalidQuery| Failure::from(ApiError::from(refused));
        let limit = query.limit("limit", DEFAULT_LIMIT).map_err(refused)?;
        query.choice("order_by", &ORDERS, ()).map_err(refused)?;
        let reverse = query.flag("reverse").map_err(refused)?;
        let token = query.text("next_token").map_err(refused)?;
        let after = token
            .map(|token| position(token, reverse))
            .transpose()
            .map_err(|reason| Failure::new(Code::InvalidNextToken, reason))?;
        Ok(Self { limit, reverse, after })
    }

    /// The page of these executions.
    pub(super) fn apply(self, mut executions: Vec<LocalExecution>) -> ListLocalExecutions {
        let Self { limit, reverse, after } = self;
        executions.sort_unstable_by_key(|execution| execution.id);
        if reverse {
            executions.reverse();
        }
        if let Some(after) = after {
            executions.retain(|one| if reverse { one.id < after } else { one.id > after });
        }
        let limit = limit as usize;
        let more = executions.len() > limit;
        executions.truncate(limit);
        let last = executions.last().filter(|_| more);
        let next_token = last.map(|last| token(last.id, reverse)).unwrap_or_default();
        ListLocalExecutions { executions, next_token }
    }
}

fn token(last: ExecutionId, reverse: bool) -> String {
    let mut bytes = vec![FORMAT, u8::from(reverse)];
    bytes.extend_from_slice(last.uuid().as_bytes());
    let checksum = checksum(&bytes);
    bytes.extend_from_slice(&checksum);
    URL_SAFE_NO_PAD.encode(bytes)
}

/// The position that a token names, or why it names none.
fn position(token: &str, reverse: bool) -> Result<ExecutionId, &'static str> {
    const BROKEN: &str = "the next_token is incomplete, altered or of another operation";
    let bytes = URL_SAFE_NO_PAD.decode(token).map_err(|_| BROKEN)?;
    let (signed, sum) = bytes.split_last_chunk::<CHECKSUM_BYTES>().ok_or(BROKEN)?;
    if checksum(signed) != *sum {
        return Err(BROKEN);
    }
    let ([FORMAT, direction], id) = signed.split_first_chunk::<2>().ok_or(BROKEN)? else {
        return Err(BROKEN);
    };
    if *direction != u8::from(reverse) {
        return Err("the next_token belongs to another order");
    }
    let id = Uuid::from_slice(id).map_err(|_| BROKEN)?;
    Ok(ExecutionId::from_uuid(id))
}

/// No secret: it detects tokens that were truncated or made up.
fn checksum(bytes: &[u8]) -> [u8; CHECKSUM_BYTES] {
    let digest = digest::digest(&digest::SHA256, bytes);
    let mut checksum = [0; CHECKSUM_BYTES];
    checksum.copy_from_slice(&digest.as_ref()[..CHECKSUM_BYTES]);
    checksum
}

#[cfg(test)]
mod tests {
    use api_types::execution::DesiredState;
    use api_types::{JobId, NodeId};

    use super::*;

    fn executions(count: u128) -> Vec<LocalExecution> {
        // Not in the order of their IDs.
        (0..count)
            .rev()
            .map(|number| LocalExecution {
                id: ExecutionId::from_uuid(Uuid::from_u128(number)),
                job_id: JobId::from_uuid(Uuid::nil()),
                node_id: NodeId::from_uuid(Uuid::nil()),
                phase: "Running".to_owned(),
                desired_state: DesiredState::Running,
                message: String::new(),
            })
            .collect()
    }

    fn page(query: &str, count: u128) -> ListLocalExecutions {
        PageQuery::read(&Query::parse(query).unwrap()).unwrap().apply(executions(count))
    }

    fn refusal(query: &str) -> (Code, String) {
        let Failure(error) = PageQuery::read(&Query::parse(query).unwrap()).unwrap_err();
        (error.code, error.message)
    }

    #[test]
    fn pages_cover_the_list_in_both_directions() {
        for (reverse, expected) in
            [("", (0..5).collect::<Vec<_>>()), ("&reverse", (0..5).rev().collect())]
        {
            let (mut found, mut token) = (Vec::new(), String::new());
            loop {
                let page = page(&format!("limit=2&order_by=id&next_token={token}{reverse}"), 5);
                found.extend(page.executions.iter().map(|one| one.id.uuid().as_u128()));
                token = page.next_token;
                if token.is_empty() {
                    break;
                }
            }
            assert_eq!(found, expected);
        }
        let whole = page("", 101);
        assert_eq!((whole.executions.len(), whole.next_token.is_empty()), (100, false));
        assert_eq!(page("limit=1000", 101).next_token, "");
    }

    #[test]
    fn a_query_is_checked_as_that_of_any_list() {
        for query in ["limit=-1", "limit=ten", "order_by=state", "reverse=maybe", "limit=1&limit=2"]
        {
            assert_eq!(refusal(query).0, Code::InvalidQuery, "{query}");
        }
        let token = page("limit=2", 5).next_token;
        let other = refusal(&format!("reverse&next_token={token}"));
        assert_eq!(
            other,
            (Code::InvalidNextToken, "the next_token belongs to another order".to_owned())
        );
        for broken in ["AQ", "%C3%BC", &token[1..], &token.replace(&token[..3], "BBB")] {
            assert_eq!(
                refusal(&format!("next_token={broken}")).0,
                Code::InvalidNextToken,
                "{broken}"
            );
        }
    }
}
