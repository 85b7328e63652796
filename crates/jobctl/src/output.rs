//! Output: tables, JSON, YAML, names. No other module writes to stdout.

mod age;
mod characters;
mod colours;
mod fields;
mod format;
mod list;
mod local;
mod out;
mod progress;
mod rows;
mod screen;
mod style;
mod table;

pub(crate) use age::{age, age_of_text, short_time};
pub(crate) use characters::printable;
pub(crate) use colours::Colours;
pub(crate) use fields::Fields;
pub(crate) use list::{Layout, Listed, preview, show, watch};
pub(crate) use local::{local, local_text, local_word, time_of_day, with_local_times};
pub(crate) use out::{Format, Out, note};
pub(crate) use progress::{Progress, Shared, SpinnerHandle, Transfer};
pub(crate) use rows::Rows;
pub(crate) use screen::Screen;
pub(crate) use style::Tone;
pub(crate) use table::{Cell, LOCAL_TIME, Table};
