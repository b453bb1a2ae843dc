//! Values of expressions in PromQL.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use jiff::Timestamp;
use plugin_sdk::{
    BoxError, Expression, MetricQuery, MetricReading, MetricSource, Problem, Series, Windows,
};
use serde::Deserialize;

use crate::{
    Error, Prometheus, promql,
    server::{Answer, Connection},
};

/// Maximum number of windows of one request.
const WINDOWS: u32 = 1_000;

#[async_trait]
impl MetricSource for Prometheus {
    fn accepts(&self, expression: &Expression) -> Result<(), Problem> {
        promql::check(expression).map_err(Problem::new)
    }

    async fn read(&self, query: MetricQuery) -> Result<MetricReading, BoxError> {
        let windows = query.windows;
        if windows.count > WINDOWS {
            return Err(format!(
                "{} windows in one query: the limit is {WINDOWS}",
                windows.count
            )
            .into());
        }
        let Answer { body, date } = self.0.get(&path(&query)?).await?;
        Ok(read(&self.0, body, date, windows)?)
    }
}

/// The path of a query.
fn path(query: &MetricQuery) -> Result<String, String> {
    let windows = query.windows;
    let text = promql::fresh(&query.expression, windows.length)?;
    let parameters = [
        ("query", text),
        ("start", windows.first().as_second().to_string()),
        ("end", windows.last.as_second().to_string()),
        ("step", windows.length.as_secs().to_string()),
    ];
    let encoded = form_urlencoded::Serializer::new(String::new())
        .extend_pairs(parameters)
        .finish();
    Ok(format!("/api/v1/query_range?{encoded}"))
}

/// Reads an answer: complete, of the right shape, each series once, and only values of the query.
fn read(
    connection: &Connection,
    answer: Envelope,
    date: Timestamp,
    windows: Windows,
) -> Result<MetricReading, Error> {
    let server = || connection.server.to_string();
    if let Some(warning) = answer.warnings.into_iter().next() {
        let server = server();
        return Err(Error::Warning { server, warning });
    }
    let wrong = |content: String| Error::NotTheApi {
        server: server(),
        content,
    };
    if answer.data.result_type != "matrix" {
        return Err(wrong(format!("resultType {}", answer.data.result_type)));
    }
    let mut seen = BTreeSet::new();
    let mut series = Vec::new();
    for row in answer.data.result {
        if !seen.insert(row.metric.clone()) {
            return Err(wrong(format!("two series {:?}", row.metric)));
        }
        let samples: Result<Vec<(Timestamp, f64)>, Error> = row
            .values
            .into_iter()
            .map(|(at, value)| {
                let end = Timestamp::from_second(at as i64).ok();
                let end = end.filter(|end| windows.has(*end) && at.fract() == 0.0);
                let end = end.ok_or_else(|| {
                    wrong(format!("a value at {at}, which is outside of the query"))
                })?;
                let number = value
                    .parse()
                    .map_err(|_| wrong(format!("the value {value}")))?;
                Ok((end, number))
            })
            .collect();
        series.push(Series {
            labels: row.metric,
            samples: samples?,
        });
    }
    Ok(MetricReading {
        series,
        as_of: date.min(windows.last),
        infos: answer.infos,
    })
}

/// The answer of Prometheus, if it succeeds. Other answers have another status.
#[derive(Debug, Deserialize)]
struct Envelope {
    data: Matrix,
    #[serde(default)]
    warnings: Vec<String>,
    #[serde(default)]
    infos: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Matrix {
    result_type: String,
    result: Vec<Row>,
}

/// One series: its labels, and its values, each with its time in seconds.
#[derive(Debug, Deserialize)]
struct Row {
    metric: BTreeMap<String, String>,
    values: Vec<(f64, String)>,
}
