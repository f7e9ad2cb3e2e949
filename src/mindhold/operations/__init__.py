"""What Mindhold can do, each operation once. `index` finds them by name."""
