"""Lists of many hosts: what it costs that the next row goes elsewhere."""
