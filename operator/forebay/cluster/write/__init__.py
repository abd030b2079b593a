"""Write: carries out the actions of a Plan and writes statuses and Events."""
