//! What a person may do at the control plane.

crate::words! {
    /// What an admin may do. They nest: a later one may all that an earlier one may.
    #[derive(PartialOrd, Ord)]
    pub enum Role {
        /// Looks: status, activity, inventory, policies.
        Viewer = "viewer",
        /// Also decides on calls that wait for a person.
        Approver = "approver",
        /// Also changes what holds: tokens, tools, configuration, incidents.
        Operator = "operator",
    }
}

#[cfg(test)]
mod tests {
    use super::Role;

    #[test]
    fn roles_nest_in_the_order_of_their_declaration() {
        assert!(Role::Viewer < Role::Approver && Role::Approver < Role::Operator);
        assert_eq!(Role::ALL.map(Role::as_str), ["viewer", "approver", "operator"]);
    }
}
