//! What an execution used over time as bytes: eight for each point, a kilobyte at most.

use api_types::Timestamp;
use api_types::curve::{MAX_POINTS, UsageCurve};

use super::bad_record;
use crate::store::StoreError;

/// Bytes before the points: when they begin and end, and the step.
const HEAD_BYTES: usize = 20;

const POINT_BYTES: usize = 8;

pub(in crate::store) fn to_bytes(curve: &UsageCurve) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEAD_BYTES + POINT_BYTES * curve.cpu.len());
    bytes.extend_from_slice(&curve.begin_time.0.to_le_bytes());
    bytes.extend_from_slice(&curve.end_time.0.to_le_bytes());
    bytes.extend_from_slice(&curve.step.to_le_bytes());
    for (cores, memory) in curve.cpu.iter().zip(&curve.memory) {
        bytes.extend_from_slice(&cores.to_le_bytes());
        bytes.extend_from_slice(&approximate(*memory).to_le_bytes());
    }
    bytes
}

pub(in crate::store) fn of_bytes(bytes: &[u8]) -> Result<UsageCurve, StoreError> {
    let damaged = || bad_record("the curve of an execution");
    let (begin, rest) = bytes.split_first_chunk().ok_or_else(damaged)?;
    let (end, rest) = rest.split_first_chunk().ok_or_else(damaged)?;
    let (step, rest) = rest.split_first_chunk().ok_or_else(damaged)?;
    let (points, rest) = rest.as_chunks::<POINT_BYTES>();
    if !rest.is_empty() || points.len() > MAX_POINTS {
        return Err(damaged());
    }
    let number = |point: &[u8; POINT_BYTES], at: usize| {
        let [a, b, c, d] = [point[at], point[at + 1], point[at + 2], point[at + 3]];
        f32::from_le_bytes([a, b, c, d])
    };
    Ok(UsageCurve {
        begin_time: Timestamp(i64::from_le_bytes(*begin)),
        end_time: Timestamp(i64::from_le_bytes(*end)),
        step: u32::from_le_bytes(*step),
        cpu: points.iter().map(|point| number(point, 0)).collect(),
        memory: points.iter().map(|point| whole(number(point, 4))).collect(),
    })
}

#[expect(clippy::cast_precision_loss, reason = "seven digits suffice for a chart")]
fn approximate(bytes: u64) -> f32 {
    bytes as f32
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "it was made from a number of bytes"
)]
fn whole(bytes: f32) -> u64 {
    bytes as u64
}
