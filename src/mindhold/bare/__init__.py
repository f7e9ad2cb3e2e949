"""What a hook needs, which must be over before anybody notices: standard library only, and little of that."""
