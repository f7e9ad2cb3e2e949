"""Past conversations: kept in an index of their own, searched, shown, archived and forgotten."""
