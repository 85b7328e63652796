//! The query strings of this API. Each operation's parameters are a type of their own, see [`typed`].

mod invalid;
mod parts;
mod shapes;
pub(super) mod typed;

pub(super) use daemon::http::Query;

pub(super) use invalid::invalid;
pub(super) use parts::{
    EventFilters, HundredAPage, Labels, Reverse, Since, StreamFilters, TenAPage,
};
pub(super) use shapes::{
    Choice, ExecutionStates, Flag, IdPrefix, Indexes, JobStates, Limit, Moment, Namespace, Number,
    OneJobType, Positions, RequiredNumber, RequiredText, Text, Wait,
};
pub(super) use typed::{Parameters, query};
