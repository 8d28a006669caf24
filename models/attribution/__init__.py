"""Attribution: the use of a resource, such as CPU time, divided over query classes."""
