//! The start-up table: groups, deployments, limits.
use crate::catalog::{Catalog, Target};
use std::fmt::Write;

/// A table for people.
#[must_use]
pub(super) fn of(catalog: &Catalog) -> String {
    let header = ["model", "deployment", "answers from", "rpm", "tpm"].map(str::to_owned);
    let rows = catalog.groups.iter().flat_map(|group| {
        group.deployments.iter().map(|deployment| {
            let from = match &deployment.target {
                Target::Mock { .. } => "mock_response".to_owned(),
                Target::Upstream(upstream) => format!("{} at {}", upstream.model, upstream.base),
            };
            let limit = |limit: Option<u64>| limit.map_or_else(|| "-".to_owned(), |limit| limit.to_string());
            let facts = &deployment.facts;
            [group.name.to_string(), facts.id.to_string(), from, limit(facts.rpm), limit(facts.tpm)]
        })
    });
    let rows: Vec<_> = std::iter::once(header).chain(rows).collect();
    let widths: [usize; 5] =
        std::array::from_fn(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0));
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
        let _ = writeln!(text, "  {}", cells.collect::<Vec<_>>().join("  ").trim_end());
    }
    text
}
