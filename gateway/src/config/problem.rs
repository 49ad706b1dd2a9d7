//! What is wrong with a config: a sentence, the place, the path, what was found and what is allowed.
use super::secrets;
use std::fmt;
use std::sync::Arc;

/// Where a value was written.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    /// In a file. Line 0 stands for the file as a whole.
    File {
        /// In reading order, so that problems come in it too.
        number: usize,
        line: usize,
        column: usize,
        name: Arc<str>,
    },
    /// In an environment variable that overrides the file.
    Environment(Arc<str>),
}

impl Place {
    /// The line, for messages about two places of the same file.
    pub(super) fn line(&self) -> usize {
        match self {
            Self::File { line, .. } => *line,
            Self::Environment(_) => 0,
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { name, line: 0, .. } => f.write_str(name),
            Self::File { name, line, column, .. } => write!(f, "{name}:{line}:{column}"),
            Self::Environment(variable) => write!(f, "environment variable {variable}"),
        }
    }
}

/// Where a value stands in the structure: `model_list[0].litellm_params.rpm`. Safe to print.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Path(String);

impl Path {
    /// The value under a key of this map.
    #[must_use]
    pub(super) fn key(&self, key: &str) -> Self {
        let shown = secrets::shown_key(key);
        let bare = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '*' | '/');
        if shown.is_empty() || !shown.chars().all(bare) {
            Self(format!("{}[\"{shown}\"]", self.0))
        } else if self.0.is_empty() {
            Self(shown)
        } else {
            Self(format!("{}.{shown}", self.0))
        }
    }

    /// An item of this list.
    #[must_use]
    pub(super) fn index(&self, index: usize) -> Self {
        Self(format!("{}[{index}]", self.0))
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// The config is refused.
    Error,
    /// The config is taken, but does not do all that it says.
    Warning,
}

/// One thing that is wrong. Prints like a compiler's message, without any secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    severity: Severity,
    what: String,
    place: Place,
    path: Path,
    found: Option<String>,
    allowed: Option<String>,
}

impl Problem {
    /// Refuses the config.
    pub(super) fn error(what: impl Into<String>, place: &Place, path: &Path) -> Self {
        Self {
            severity: Severity::Error,
            what: what.into(),
            place: place.clone(),
            path: path.clone(),
            found: None,
            allowed: None,
        }
    }

    /// Only tells.
    pub(super) fn warning(what: impl Into<String>, place: &Place, path: &Path) -> Self {
        Self { severity: Severity::Warning, ..Self::error(what, place, path) }
    }

    /// What stands there. The caller has made sure that it may be printed.
    #[must_use]
    pub(super) fn found(mut self, found: impl Into<String>) -> Self {
        self.found = Some(found.into());
        self
    }

    /// What may stand there.
    #[must_use]
    pub(super) fn allowed(mut self, allowed: impl Into<String>) -> Self {
        self.allowed = Some(allowed.into());
        self
    }

    /// How bad it is.
    #[must_use]
    pub fn severity(&self) -> Severity {
        self.severity
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        write!(f, "{severity}: {}\n  --> {}", self.what, self.place)?;
        if !self.path.0.is_empty() {
            write!(f, " at {}", self.path)?;
        }
        for (label, text) in [("found", &self.found), ("allowed", &self.allowed)] {
            if let Some(text) = text {
                write!(f, "\n  = {label}: {text}")?;
            }
        }
        Ok(())
    }
}

/// All that is wrong with a config, warnings included, in the order of the file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Problems(Vec<Problem>);

impl Problems {
    /// Adds one.
    pub(super) fn push(&mut self, problem: Problem) {
        self.0.push(problem);
    }

    /// Whether the config must be refused.
    #[must_use]
    pub fn has_errors(&self) -> bool {
        self.0.iter().any(|problem| problem.severity == Severity::Error)
    }

    /// One after the other.
    pub fn iter(&self) -> impl Iterator<Item = &Problem> {
        self.0.iter()
    }

    /// Without these texts, wherever they stand. What is allowed holds our own words alone.
    #[must_use]
    pub(super) fn without(mut self, credentials: &[String]) -> Self {
        for problem in &mut self.0 {
            let found = problem.found.iter_mut();
            for text in found.chain([&mut problem.what, &mut problem.path.0]) {
                for secret in credentials {
                    if text.contains(secret) {
                        *text = text.replace(secret, secrets::HIDDEN);
                    }
                }
            }
        }
        self
    }

    /// In the order of the files, then those of the environment.
    pub(super) fn sorted(mut self) -> Self {
        self.0.sort_by(|a, b| a.place.cmp(&b.place));
        self
    }

    /// The problems themselves.
    pub(super) fn into_vec(self) -> Vec<Problem> {
        self.0
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.0.iter().enumerate() {
            write!(f, "{}{problem}", if index == 0 { "" } else { "\n\n" })?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}
