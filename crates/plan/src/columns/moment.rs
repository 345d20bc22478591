//! Moments that constants say: `date '1998-12-01' - interval '90' day`. PostgreSQL computes them once, before there are rows.

use chrono::{Months, NaiveDate, NaiveDateTime, NaiveTime, TimeDelta};
use sql::ast::{self, Node, a_const::Val};
use sql::{NodeEnum, names};

use super::constant;
use super::expression::{Expr, Kind};
use super::types::Ty;
use super::{Found, refused};
use crate::rewrite::{self, ClockType};

/// As PostgreSQL has them: of no two units one can be told by the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interval {
    months: i32,
    days: i64,
    seconds: i64,
}

/// From now, some three thousand years: there are timestamps for these.
const SECONDS_MAX: i64 = 100_000_000_000;
/// Counts of units are no greater.
const COUNT_MAX: i64 = 1_000_000;

/// An interval's literal. `None`: it is none; only the plainest are read, a whole number and its unit, once or several times.
pub fn interval(node: &Node) -> Found<Option<Interval>> {
    let Some(NodeEnum::TypeCast(c)) = &node.node else { return Ok(None) };
    let Some(name) = c.type_name.as_ref().filter(|name| names::plain_type(name) == Some("interval")) else {
        return Ok(None);
    };
    let text = match c.arg.as_deref().and_then(|arg| arg.node.as_ref()) {
        Some(NodeEnum::AConst(ast::AConst { val: Some(Val::Sval(s)), isnull: false, .. })) => &s.sval,
        _ => return Err(refused("an interval that is no constant")),
    };
    let read = match &name.typmods[..] {
        [] => in_words(text),
        [Node { node: Some(NodeEnum::AConst(ast::AConst { val: Some(Val::Ival(fields)), .. })) }] => {
            field(fields.ival).and_then(|unit| Interval::default().with(count(text)?, unit))
        }
        _ => None,
    };
    read.map(Some).ok_or_else(|| refused(&format!("interval '{text}' as it is written")))
}

/// The one field of `interval '…' field` (`INTERVAL_MASK` in timestamp.h).
fn field(mask: i32) -> Option<&'static str> {
    Some(match mask {
        2 => "month",
        4 => "year",
        8 => "day",
        1024 => "hour",
        2048 => "minute",
        4096 => "second",
        _ => return None,
    })
}

fn count(text: &str) -> Option<i64> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    text.parse().ok().filter(|n: &i64| plain && n.abs() <= COUNT_MAX)
}

fn in_words(text: &str) -> Option<Interval> {
    let words: Vec<&str> = text.split(' ').collect();
    let (pairs, []) = words.as_chunks::<2>() else { return None };
    // What a sign in front of several is for, a setting says (`DecodeInterval` in datetime.c).
    if pairs.is_empty() || (pairs.len() > 1 && text.contains('-')) {
        return None;
    }
    let (mut all, mut had) = (Interval::default(), vec![]);
    for [number, unit] in pairs {
        let unit = if *unit == "mon" || *unit == "mons" { "month" } else { unit.strip_suffix('s').unwrap_or(unit) };
        // A field that comes twice is an error.
        if had.contains(&unit) {
            return None;
        }
        had.push(unit);
        all = all.with(count(number)?, unit)?;
    }
    Some(all)
}

impl Interval {
    fn with(self, n: i64, unit: &str) -> Option<Interval> {
        let Interval { months, days, seconds } = self;
        let months_more = |n: i64| Some(Interval { months: months.checked_add(i32::try_from(n).ok()?)?, ..self });
        match unit {
            "year" => months_more(n * 12),
            "month" => months_more(n),
            "week" => Some(Interval { days: days + n * 7, ..self }),
            "day" => Some(Interval { days: days + n, ..self }),
            "hour" => Some(Interval { seconds: seconds + n * 3600, ..self }),
            "minute" => Some(Interval { seconds: seconds + n * 60, ..self }),
            "second" => Some(Interval { seconds: seconds + n, ..self }),
            _ => None,
        }
    }

    fn negated(self) -> Interval {
        Interval { months: -self.months, days: -self.days, seconds: -self.seconds }
    }

    /// A day of the month that there is not is its last (`timestamp_pl_interval` in timestamp.c).
    fn behind(self, moment: NaiveDateTime) -> Option<NaiveDateTime> {
        let by = Months::new(self.months.unsigned_abs());
        let moved = if self.months < 0 { moment.checked_sub_months(by) } else { moment.checked_add_months(by) };
        moved?
            .checked_add_signed(TimeDelta::try_days(self.days)?)?
            .checked_add_signed(TimeDelta::try_seconds(self.seconds)?)
    }
}

/// What the clock says of the statement's time.
pub fn now(node: &NodeEnum) -> Found<Expr> {
    match rewrite::clock_type(node) {
        Some(ClockType { name: "timestamptz", digits: -1, .. }) => Ok(Expr { ty: Ty::Timestamptz, kind: Kind::Now(0) }),
        _ => Err(refused("what the clock says in the session's zone")),
    }
}

/// `constant + interval`, `constant - interval`
pub fn shifted(name: &str, left: Expr, interval: Interval) -> Found<Expr> {
    let refuse = || refused(&format!("{} {name} interval here", left.ty.name()));
    let interval = match name {
        "+" => interval,
        "-" => interval.negated(),
        _ => return Err(refuse()),
    };
    if let Kind::Now(seconds) = left.kind {
        if interval.months != 0 || interval.days != 0 {
            return Err(refused("now() and an interval of days, which are the session's zone's (hours are not),"));
        }
        let seconds = seconds.checked_add(interval.seconds).filter(|s| s.abs() <= SECONDS_MAX);
        let seconds = seconds.ok_or_else(|| refused("now() and an interval of so many hours"))?;
        return Ok(Expr { ty: left.ty, kind: Kind::Now(seconds) });
    }
    let (Kind::Constant(text), Some(moment)) = (&left.kind, moment(&left)) else { return Err(refuse()) };
    // Where days begin is the session's zone's to say.
    let ty = match left.ty {
        Ty::Timestamptz if interval.months == 0 && interval.days == 0 => Ty::Timestamptz,
        Ty::Date | Ty::Timestamp => Ty::Timestamp,
        _ => return Err(refuse()),
    };
    let shifted = interval.behind(moment).map(|moment| moment.format("%Y-%m-%d %H:%M:%S%.6f").to_string());
    // Years of other than four digits are not.
    let as_literal = |text: String| match ty {
        Ty::Timestamptz => format!("{text}+00"),
        _ => text,
    };
    let read = shifted.and_then(|text| constant::read(&as_literal(text), ty));
    let (ty, text) = read.ok_or_else(|| refused(&format!("'{text}' {name} interval")))?;
    Ok(Expr { ty, kind: Kind::Constant(text) })
}

/// A constant's moment.
fn moment(e: &Expr) -> Option<NaiveDateTime> {
    let Kind::Constant(text) = &e.kind else { return None };
    let (date, time) = text.split_once(' ').unwrap_or((text, "00:00:00"));
    let date = NaiveDate::parse_from_str(date, "%Y-%m-%d").ok()?;
    let time = NaiveTime::parse_from_str(time, "%H:%M:%S%.f").ok()?;
    Some(date.and_time(time))
}

/// The day that a constant moment begins, if it does.
pub fn midnight(e: &Expr) -> Option<Expr> {
    let moment = moment(e).filter(|m| matches!(e.ty, Ty::Date | Ty::Timestamp) && m.time() == NaiveTime::MIN)?;
    Some(Expr { ty: Ty::Date, kind: Kind::Constant(moment.format("%Y-%m-%d").to_string()) })
}
