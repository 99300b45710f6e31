"""What generated code calls: functions over values in inner form. Arguments are never None unless they say so."""
