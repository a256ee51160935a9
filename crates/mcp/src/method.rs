//! The methods we speak, and a safe spelling of those we do not.

/// A method name, recognised or not.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Method {
    /// `initialize`
    Initialize,
    /// `ping`
    Ping,
    /// `tools/list`
    ToolsList,
    /// `tools/call`
    ToolsCall,
    /// `notifications/cancelled`
    Cancelled,
    /// Anything else, cut to 128 bytes, control characters removed.
    Other(String),
}

impl Method {
    /// Recognises a method.
    #[must_use]
    pub fn parse(name: &str) -> Self {
        match name {
            "initialize" => Self::Initialize,
            "ping" => Self::Ping,
            "tools/list" => Self::ToolsList,
            "tools/call" => Self::ToolsCall,
            "notifications/cancelled" => Self::Cancelled,
            other => Self::Other(recordable(other)),
        }
    }

    /// The name for records.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Initialize => "initialize",
            Self::Ping => "ping",
            Self::ToolsList => "tools/list",
            Self::ToolsCall => "tools/call",
            Self::Cancelled => "notifications/cancelled",
            Self::Other(name) => name,
        }
    }
}

/// A name that came from outside, fit for a record: at most 128 bytes, no control characters.
#[must_use]
pub fn recordable(name: &str) -> String {
    let mut kept = String::with_capacity(name.len().min(128));
    for c in name.chars().filter(|c| !c.is_control()) {
        if kept.len() + c.len_utf8() > 128 {
            break;
        }
        kept.push(c);
    }
    kept
}

/// Splits `server__tool` at the first `__`: server ids hold no underscore.
#[must_use]
pub fn split_federated(name: &str) -> Option<(&str, &str)> {
    name.split_once("__")
}

/// A server's tool under its name on the federated route.
#[must_use]
pub fn federated(server: &str, tool: &str) -> String {
    format!("{server}__{tool}")
}

#[cfg(test)]
mod tests {
    use super::*;

    // R172
    #[test]
    fn unknown_names_are_bounded_and_free_of_control_characters() {
        assert_eq!(recordable("a\u{1b}[31m\nb"), "a[31mb");
        assert_eq!(recordable(&"é".repeat(100)).len(), 128);
        assert_eq!(Method::parse("x\0y"), Method::Other("xy".to_owned()));
    }

    #[test]
    fn the_first_double_underscore_splits() {
        assert_eq!(split_federated("a__b__c"), Some(("a", "b__c")));
        assert_eq!(split_federated("ab"), None);
    }
}
