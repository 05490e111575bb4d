"""A preset for pflow: Acme tickets."""
