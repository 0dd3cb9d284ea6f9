"""Where the shards of an audit are worked on: in this process, or on many."""
