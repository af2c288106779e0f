"""What every scenario needs: servers, processes with their costs, checked runs, figures."""
