//! Parameters that several operations share.

use api_types::Timestamp;
use api_types::history::EventType;
use api_types::selector::Selector;

use super::shapes::{Choice, Flag, Limit, Moment, Requirements, Text};
use super::typed::query;

const LIMIT: &str = "Rows per page; 0 selects the default, the maximum is 1,000.";
const NEXT_TOKEN: &str = "The `NextToken` of the previous page.";

const EVENT_TYPES: Choice<Option<EventType>> = Choice {
    permitted: &[
        ("job", Some(EventType::JobLevel)),
        ("execution", Some(EventType::ExecutionLevel)),
        ("all", None),
    ],
    default: None,
};

const STREAMED_EVENT_TYPES: Choice<Option<EventType>> = Choice {
    permitted: &[
        ("job", Some(EventType::JobLevel)),
        ("execution", Some(EventType::ExecutionLevel)),
        ("node", Some(EventType::NodeLevel)),
        ("all", None),
    ],
    default: None,
};

query! {
    /// A page of a list of jobs or nodes.
    pub(in crate::http) struct TenAPage {
        pub(in crate::http) limit: u32 = ("limit", Limit { default: 10 }, LIMIT);
        pub(in crate::http) next_token: Option<String> = ("next_token", Text, NEXT_TOKEN);
    }

    /// A page of a list of parts of a job.
    pub(in crate::http) struct HundredAPage {
        pub(in crate::http) limit: u32 = ("limit", Limit { default: 100 }, LIMIT);
        pub(in crate::http) next_token: Option<String> = ("next_token", Text, NEXT_TOKEN);
    }

    pub(in crate::http) struct Reverse {
        pub(in crate::http) reverse: bool = (
            "reverse",
            Flag,
            "Reverses the order. `1`, `0` and a key without a value also work."
        );
    }

    pub(in crate::http) struct Labels {
        pub(in crate::http) selector: Selector = (
            "labels",
            Requirements,
            "A selector: requirements separated by commas (`key`, `!key`, `key=v`, `key!=v`, \
             `key in (a,b)`, `key notin (a,b)`, `key>5`, `key<5`), all of which must hold; may \
             be repeated."
        );
    }

    /// Filters for the events of a job.
    pub(in crate::http) struct EventFilters {
        pub(in crate::http) event_type: Option<EventType> =
            ("event_type", EVENT_TYPES, "Events of jobs, of executions, or all.");
        pub(in crate::http) since: Since = part;
    }

    /// Filters for the events of all jobs or nodes.
    pub(in crate::http) struct StreamFilters {
        pub(in crate::http) event_type: Option<EventType> = (
            "event_type",
            STREAMED_EVENT_TYPES,
            "Events of jobs, of executions, or all of these; or events of nodes, which come only \
             with `node`."
        );
        pub(in crate::http) since: Since = part;
    }

    pub(in crate::http) struct Since {
        pub(in crate::http) since: Option<Timestamp> = (
            "since",
            Moment,
            "Events at or after: Unix seconds, optionally with a fraction, RFC 3339, a date, or a \
             duration back from now, like `2h`."
        );
    }
}
