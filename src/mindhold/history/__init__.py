"""Past conversations: indexed, searched, shown, archived and forgotten."""
